// The function that is measured, as a user writes it.
#include "flow_func/meta_flow_func.h"

class Pass : public FlowFunc::MetaFlowFunc {
public:
    int32_t Init() override
    {
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    int32_t Proc(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs) override
    {
        return context_->SetOutput(0, inputs[0]);
    }
};

REGISTER_FLOW_FUNC("pass", Pass);
