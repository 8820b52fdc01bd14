// The addition of two float tensors, as a user writes it, and the same loop over memory of one's own.
#include "flow_func/meta_flow_func.h"

namespace {
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

class Plain : public Add {
public:
    int32_t Proc(const Messages &inputs) override
    {
        const int64_t count = inputs[0]->GetTensor()->GetElementCnt();
        a_.resize(static_cast<size_t>(count), 1.0F);
        b_.resize(static_cast<size_t>(count), 2.0F);
        out_.resize(static_cast<size_t>(count));
        Sum(a_.data(), b_.data(), out_.data(), count);
        return context_->SetOutput(0, inputs[0]);
    }

private:
    std::vector<float> a_, b_, out_;
};

REGISTER_FLOW_FUNC("add", Add);
REGISTER_FLOW_FUNC("plain", Plain);
