// Multiplies every element of a tensor of floats by the parameter "factor".
#include "flow_func/meta_flow_func.h"

using namespace FlowFunc;

namespace {
class Gain : public MetaFlowFunc {
public:
    int32_t Init() override
    {
        const int32_t code = context_->GetAttr("factor", factor_);
        return code == FLOW_FUNC_ERR_ATTR_NOT_EXITS ? FLOW_FUNC_SUCCESS : code;
    }

    int32_t Proc(const std::vector<std::shared_ptr<FlowMsg>> &inputs) override
    {
        const Tensor *input = inputs[0]->GetTensor();
        if (input == nullptr || input->GetDataType() != TensorDataType::DT_FLOAT) {
            return FLOW_FUNC_ERR_USER_DEFINE_START + 1;
        }
        const std::shared_ptr<FlowMsg> output = context_->AllocTensorMsg(input->GetShape(), TensorDataType::DT_FLOAT);
        if (output == nullptr) {
            return FLOW_FUNC_FAILED;
        }
        const float *from = static_cast<const float *>(input->GetData());
        float *to = static_cast<float *>(output->GetTensor()->GetData());
        for (int64_t i = 0; i < input->GetElementCnt(); ++i) {
            to[i] = from[i] * factor_;
        }
        return context_->SetOutput(0, output);
    }

private:
    float factor_ = 1.0F;
};

REGISTER_FLOW_FUNC("gain", Gain);
}  // namespace
