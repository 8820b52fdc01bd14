// The addition of two float tensors, as a user writes it, and the same loop over memory of one's own.
#include "flow_func/meta_flow_func.h"

namespace {
constexpr int64_t kCount = 1500000; // floats of 6 MB
using Messages = std::vector<std::shared_ptr<FlowFunc::FlowMsg>>;

void Sum(const float *a, const float *b, float *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = a[i] + b[i];
    }
}
}  // namespace

class Add : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const Messages &inputs) override
    {
        FlowFunc::Tensor *const a = inputs[0]->GetTensor();
        FlowFunc::Tensor *const b = inputs[1]->GetTensor();
        const auto out = context_->AllocTensorMsg(a->GetShape(), FlowFunc::TensorDataType::DT_FLOAT);
        Sum(static_cast<float *>(a->GetData()), static_cast<float *>(b->GetData()),
            static_cast<float *>(out->GetTensor()->GetData()), a->GetElementCnt());
        return context_->SetOutput(0, out);
    }
};

// Over so many places in turn: one stays in the caches, of many each is as far away as a message that has just come.
template <size_t Places>
class Plain : public Add {
public:
    int32_t Init() override
    {
        for (Place &place : places_) {
            for (std::vector<float> *const each : {&place.a, &place.b, &place.out}) {
                each->resize(kCount, 1.0F);
            }
        }
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const Messages &inputs) override
    {
        Place &place = places_[turn_++ % Places];
        Sum(place.a.data(), place.b.data(), place.out.data(), kCount);
        return context_->SetOutput(0, inputs[0]);
    }

private:
    struct Place {
        std::vector<float> a, b, out;
    };

    Place places_[Places];
    size_t turn_ = 0;
};

using Near = Plain<1>;
using Far = Plain<8>;
REGISTER_FLOW_FUNC("add", Add);
REGISTER_FLOW_FUNC("near", Near);
REGISTER_FLOW_FUNC("far", Far);
