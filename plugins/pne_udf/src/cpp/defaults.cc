// What the base classes of the API do where nobody overrides them; also the home of their virtual tables.
#include "flow_func/meta_flow_func.h"
#include "flow_func/meta_multi_func.h"
#include "log.h"

namespace FlowFunc {
int32_t Tensor::Reshape(const std::vector<int64_t> &)
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

uint64_t Tensor::GetDataBufferSize() const
{
    return 0;
}

uint64_t FlowMsg::GetTransactionId() const
{
    return UINT64_MAX;
}

const std::vector<Tensor *> FlowMsg::GetTensorList() const
{
    return {};
}

int32_t FlowMsg::GetRawData(void *&, uint64_t &) const
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

void FlowMsg::SetMsgType(MsgType) {}

void FlowMsg::SetTransactionId(uint64_t) {}

std::shared_ptr<FlowMsg> MetaContext::AllocTensorMsgWithAlign(const std::vector<int64_t> &, TensorDataType, uint32_t)
{
    return nullptr;
}

void MetaContext::RaiseException(int32_t expCode, uint64_t)
{
    dflow::Log(dflow::Level::kError, "RaiseException(%d) is not supported here", expCode);
}

bool MetaContext::GetException(int32_t &, uint64_t &)
{
    return false;
}

std::shared_ptr<FlowMsg> MetaRunContext::AllocTensorMsgWithAlign(const std::vector<int64_t> &, TensorDataType, uint32_t)
{
    return nullptr;
}

std::shared_ptr<FlowMsg> MetaRunContext::AllocTensorListMsg(const std::vector<std::vector<int64_t>> &,
                                                            const std::vector<TensorDataType> &, uint32_t)
{
    return nullptr;
}

void MetaRunContext::RaiseException(int32_t expCode, uint64_t)
{
    dflow::Log(dflow::Level::kError, "RaiseException(%d) is not supported here", expCode);
}

bool MetaRunContext::GetException(int32_t &, uint64_t &)
{
    return false;
}

std::shared_ptr<FlowMsg> MetaRunContext::AllocRawDataMsg(int64_t, uint32_t)
{
    return nullptr;
}

std::shared_ptr<FlowMsg> MetaRunContext::ToFlowMsg(std::shared_ptr<Tensor>)
{
    return nullptr;
}

int32_t MetaParams::GetRunningInstanceId() const
{
    return -1;
}

int32_t MetaParams::GetRunningInstanceNum() const
{
    return -1;
}

int32_t MetaFlowFunc::ResetFlowFuncState()
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}

int32_t MetaMultiFunc::ResetFlowFuncState(const std::shared_ptr<MetaParams> &)
{
    return FLOW_FUNC_ERR_NOT_SUPPORT;
}
}  // namespace FlowFunc
