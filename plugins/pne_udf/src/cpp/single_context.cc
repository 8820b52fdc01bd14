// MetaParams, the context of single functions, and the factory of tensors.
#include <atomic>
#include <cstring>
#include <utility>

#include "contexts.h"
#include "log.h"

namespace FlowFunc {
// Tensors of no message yet: they belong to the instance whose thread asks, or else to the last one that was made.
std::shared_ptr<Tensor> FlowBufferFactory::AllocTensor(const std::vector<int64_t> &shape, TensorDataType dataType,
                                                       uint32_t align)
{
    dflow::Bus *const bus = dflow::CurrentBus();
    std::string fault = "no instance is loaded";
    dflow::MessagePtr msg;
    if (bus != nullptr) {
        dflow::Head head;
        memset(&head, 0, sizeof(head));
        msg = dflow::AllocTensors(bus, head, dflow::View(), {shape}, {dataType}, align, false, &fault);
    }
    if (msg == nullptr) {
        dflow::Log(dflow::Level::kError, "AllocTensor: %s", fault.c_str());
        return nullptr;
    }
    Tensor *const tensor = msg->GetTensor();
    return std::shared_ptr<Tensor>(std::move(msg), tensor);
}
}  // namespace FlowFunc

namespace dflow {
namespace {
thread_local Bus *t_bus = nullptr;
std::atomic<Bus *> g_bus{nullptr};
}  // namespace

Bus *CurrentBus()
{
    return t_bus != nullptr ? t_bus : g_bus.load();
}

void SetThreadBus(Bus *bus)
{
    t_bus = bus;
    if (bus != nullptr) {
        g_bus.store(bus);
    }
}

void ForgetBus(Bus *bus)
{
    g_bus.compare_exchange_strong(bus, nullptr);
}

const char *Params::GetName() const
{
    return node_->name.c_str();
}

std::shared_ptr<const FlowFunc::AttrValue> Params::GetAttr(const char *attrName) const
{
    const auto found = attrName == nullptr ? node_->attrs.end() : node_->attrs.find(attrName);
    return found == node_->attrs.end() ? nullptr : found->second;
}

size_t Params::GetInputNum() const
{
    return node_->input_num;
}

size_t Params::GetOutputNum() const
{
    return node_->outputs->size();
}

const char *Params::GetWorkPath() const
{
    return node_->work_path.c_str();
}

int32_t Params::GetRunningDeviceId() const
{
    return node_->device_id;
}

int32_t Params::GetRunningInstanceId() const
{
    return node_->instance;
}

int32_t Params::GetRunningInstanceNum() const
{
    return node_->instance_count;
}

FlowMsgPtr SingleContext::AllocTensorMsg(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType)
{
    return run_->AllocTensorMsg(shape, dataType);
}

int32_t SingleContext::SetOutput(uint32_t outIdx, FlowMsgPtr outMsg)
{
    return run_->SetOutput(outIdx, std::move(outMsg));
}

std::shared_ptr<const FlowFunc::AttrValue> SingleContext::GetAttr(const char *attrName) const
{
    return params_->GetAttr(attrName);
}

size_t SingleContext::GetInputNum() const
{
    return params_->GetInputNum();
}

size_t SingleContext::GetOutputNum() const
{
    return params_->GetOutputNum();
}

FlowMsgPtr SingleContext::AllocEmptyDataMsg(FlowFunc::MsgType msgType)
{
    return run_->AllocEmptyDataMsg(msgType);
}

int32_t SingleContext::RunFlowModel(const char *modelKey, const std::vector<FlowMsgPtr> &inputMsgs,
                                    std::vector<FlowMsgPtr> &outputMsgs, int32_t timeout)
{
    return run_->RunFlowModel(modelKey, inputMsgs, outputMsgs, timeout);
}

const char *SingleContext::GetWorkPath() const
{
    return params_->GetWorkPath();
}

int32_t SingleContext::GetRunningDeviceId() const
{
    return params_->GetRunningDeviceId();
}

int32_t SingleContext::GetUserData(void *data, size_t size, size_t offset) const
{
    return run_->GetUserData(data, size, offset);
}

int32_t SingleContext::SetOutput(uint32_t outIdx, FlowMsgPtr outMsg, const FlowFunc::OutOptions &options)
{
    return run_->SetOutput(outIdx, std::move(outMsg), options);
}

int32_t SingleContext::SetMultiOutputs(uint32_t outIdx, const std::vector<FlowMsgPtr> &outMsgs,
                                       const FlowFunc::OutOptions &options)
{
    return run_->SetMultiOutputs(outIdx, outMsgs, options);
}

FlowMsgPtr SingleContext::AllocTensorMsgWithAlign(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType,
                                                  uint32_t align)
{
    return run_->AllocTensorMsgWithAlign(shape, dataType, align);
}

void SingleContext::RaiseException(int32_t expCode, uint64_t userContextId)
{
    run_->RaiseException(expCode, userContextId);
}

bool SingleContext::GetException(int32_t &expCode, uint64_t &userContextId)
{
    return run_->GetException(expCode, userContextId);
}
}  // namespace dflow
