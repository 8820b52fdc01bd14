#include "out_options.h"

namespace FlowFunc {
namespace {
class BalanceConfigImpl : public BalanceConfig {
public:
    void SetAffinityPolicy(AffinityPolicy affinityPolicy) override
    {
        policy_ = affinityPolicy;
    }

    AffinityPolicy GetAffinityPolicy() const override
    {
        return policy_;
    }

    void SetBalanceWeight(const BalanceWeight &balanceWeight) override
    {
        weight_ = balanceWeight;
    }

    const BalanceWeight &GetBalanceWeight() const override
    {
        return weight_;
    }

    void SetDataPos(const std::vector<std::pair<int32_t, int32_t>> &dataPos) override
    {
        data_pos_ = dataPos;
    }

    const std::vector<std::pair<int32_t, int32_t>> &GetDataPos() const override
    {
        return data_pos_;
    }

private:
    AffinityPolicy policy_ = AffinityPolicy::NO_AFFINITY;
    BalanceWeight weight_;
    std::vector<std::pair<int32_t, int32_t>> data_pos_;
};
}  // namespace

class OutOptionsImpl {
public:
    std::shared_ptr<BalanceConfig> balance;
};

OutOptions::OutOptions() : impl_(std::make_shared<OutOptionsImpl>()) {}

OutOptions::~OutOptions() = default;

BalanceConfig *OutOptions::MutableBalanceConfig()
{
    if (impl_->balance == nullptr) {
        impl_->balance = std::make_shared<BalanceConfigImpl>();
    }
    return impl_->balance.get();
}

const BalanceConfig *OutOptions::GetBalanceConfig() const
{
    return impl_->balance.get();
}
}  // namespace FlowFunc

namespace dflow {
namespace {
constexpr int64_t kMaxMatrix = 65536;

const char *Fault(const FlowFunc::BalanceConfig &config, bool is_scatter, bool is_gather, size_t count)
{
    const auto policy = static_cast<int32_t>(config.GetAffinityPolicy());
    const FlowFunc::BalanceWeight weight = config.GetBalanceWeight();
    const int64_t rows = weight.rowNum;
    const int64_t cols = weight.colNum;
    if (policy < 0 || policy > 2) {
        return "the affinity policy is none of the three";
    }
    if (rows <= 0 || cols <= 0 || rows * cols > kMaxMatrix) {
        return "rows and columns must be positive and their product at most 65536";
    }
    for (const auto &pos : config.GetDataPos()) {
        if (pos.first < 0 || pos.first >= rows || pos.second < 0 || pos.second >= cols) {
            return "a position lies outside of the matrix";
        }
    }
    if (!is_scatter && !is_gather) {
        return "the node is set to neither scatter nor gather";
    }
    if (is_scatter && policy != 0) {
        return "a scattering node has no affinity";
    }
    if (is_gather && policy == 0) {
        return "a gathering node needs row or column affinity";
    }
    return config.GetDataPos().size() == count ? nullptr : "there are not as many positions as messages";
}
}  // namespace

int32_t BalanceLabels(const FlowFunc::BalanceConfig &config, bool is_scatter, bool is_gather, size_t count,
                      std::vector<Labels> *labels, const char **reason)
{
    *reason = Fault(config, is_scatter, is_gather, count);
    if (*reason != nullptr) {
        return FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
    }
    const FlowFunc::BalanceWeight weight = config.GetBalanceWeight();
    for (const auto &pos : config.GetDataPos()) {
        Labels made;
        made.data = static_cast<uint32_t>(pos.first * weight.colNum + pos.second) + 1;
        switch (config.GetAffinityPolicy()) {
            case FlowFunc::AffinityPolicy::ROW_AFFINITY:
                made.route = static_cast<uint32_t>(pos.first) + 1;
                break;
            case FlowFunc::AffinityPolicy::COL_AFFINITY:
                made.route = static_cast<uint32_t>(pos.second) + 1;
                break;
            default:
                made.route = made.data;
        }
        labels->push_back(made);
    }
    return FlowFunc::FLOW_FUNC_SUCCESS;
}
}  // namespace dflow
