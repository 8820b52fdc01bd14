#include "contexts.h"

#include <algorithm>
#include <cstring>
#include <typeinfo>
#include <utility>

#include "log.h"

namespace dflow {
using FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
using FlowFunc::FLOW_FUNC_FAILED;
using FlowFunc::FLOW_FUNC_SUCCESS;

namespace {
constexpr size_t kManyMade = 64;

bool IsAlignment(uint32_t align)
{
    return align >= 32 && align <= 1024 && 1024 % align == 0;
}
}  // namespace

FlowMsgPtr RunContext::Made(const char *what, MessagePtr msg, const std::string &fault)
{
    if (msg == nullptr) {
        Log(Level::kError, "%s: %s", what, fault.c_str());
        return nullptr;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    if (made_.size() >= kManyMade) {
        const auto is_gone = [](const std::weak_ptr<Message> &made) { return made.expired(); };
        made_.erase(std::remove_if(made_.begin(), made_.end(), is_gone), made_.end());
    }
    made_.push_back(msg);
    has_made_.store(true, std::memory_order_relaxed);
    return msg;
}

void RunContext::ForgetMade()
{
    if (has_made_.load(std::memory_order_relaxed)) {
        const std::lock_guard<std::mutex> guard(lock_);
        made_.clear();
        has_made_.store(false, std::memory_order_relaxed);
    }
}

std::vector<std::weak_ptr<Message>> RunContext::TakeKept()
{
    const std::lock_guard<std::mutex> guard(lock_);
    std::vector<std::weak_ptr<Message>> kept;
    for (const std::weak_ptr<Message> &made : made_) {
        if (!made.expired()) {
            kept.push_back(made);
        }
    }
    made_.clear();
    return kept;
}

FlowMsgPtr RunContext::AllocTensorMsg(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType)
{
    constexpr uint32_t align = 64;
    return AllocTensorMsgWithAlign(shape, dataType, align);
}

FlowMsgPtr RunContext::AllocTensorMsgWithAlign(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType,
                                               uint32_t align)
{
    std::string fault = "align must be 32, 64, 128, 256, 512 or 1024";
    MessagePtr msg;
    if (IsAlignment(align)) {
        Head head;
        Bytes members;
        (void)call_->Inherit(&head, &members);
        const View aux{members.data(), members.size()};
        msg = AllocTensors(node_->bus, head, aux, {shape}, {dataType}, align, false, &fault);
    }
    return Made("AllocTensorMsg", std::move(msg), fault);
}

FlowMsgPtr RunContext::AllocTensorListMsg(const std::vector<std::vector<int64_t>> &shapes,
                                          const std::vector<FlowFunc::TensorDataType> &dataTypes, uint32_t align)
{
    std::string fault = "there must be as many shapes as data types, and an align of 32, 64, 128, 256, 512 or 1024";
    MessagePtr msg;
    if (IsAlignment(align) && shapes.size() == dataTypes.size()) {
        Head head;
        Bytes members;
        (void)call_->Inherit(&head, &members);
        const View aux{members.data(), members.size()};
        msg = AllocTensors(node_->bus, head, aux, shapes, dataTypes, align, true, &fault);
    }
    return Made("AllocTensorListMsg", std::move(msg), fault);
}

FlowMsgPtr RunContext::AllocRawDataMsg(int64_t size, uint32_t)
{
    Head head;
    Bytes members;
    (void)call_->Inherit(&head, &members);
    std::string fault;
    MessagePtr msg = AllocRaw(node_->bus, head, View{members.data(), members.size()}, size, &fault);
    return Made("AllocRawDataMsg", std::move(msg), fault);
}

FlowMsgPtr RunContext::AllocEmptyDataMsg(FlowFunc::MsgType msgType)
{
    std::string fault = "only messages of type MSG_TYPE_TENSOR_DATA can be empty";
    MessagePtr msg;
    if (msgType == FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA) {
        Head head;
        Bytes members;
        (void)call_->Inherit(&head, &members);
        msg = AllocEmpty(node_->bus, head, View{members.data(), members.size()});
        fault = "no memory";
    }
    return Made("AllocEmptyDataMsg", std::move(msg), fault);
}

FlowMsgPtr RunContext::ToFlowMsg(std::shared_ptr<FlowFunc::Tensor> tensor)
{
    const auto *const block_tensor = dynamic_cast<BlockTensor *>(tensor.get());
    const MessagePtr msg = block_tensor == nullptr ? nullptr : block_tensor->owner()->weak_from_this().lock();
    if (msg == nullptr) {
        Log(Level::kError, "ToFlowMsg: the tensor was not made by the runtime");
        return nullptr;
    }
    Head head;
    Bytes members;
    (void)call_->Inherit(&head, &members);
    const uint64_t body_size = msg->head().body_size;
    msg->head() = Derive(head, static_cast<uint16_t>(FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA));
    msg->head().body_size = body_size;
    return msg;
}

int32_t RunContext::CheckOutput(uint32_t output) const
{
    if (output >= node_->outputs->size()) {
        Log(Level::kError, "SetOutput: the node has %zu outputs, there is no %u", node_->outputs->size(), output);
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    if (std::find(info_->outputs.begin(), info_->outputs.end(), output) == info_->outputs.end()) {
        Log(Level::kError, "SetOutput: output %u is not one of function %s", output, info_->name.c_str());
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    return FLOW_FUNC_SUCCESS;
}

int32_t RunContext::Send(uint32_t output, const FlowMsgPtr &msg, const Labels *labels)
{
    if (msg == nullptr) {
        Log(Level::kWarn, "SetOutput(%u): a null message; nothing is sent", output);
        return FLOW_FUNC_SUCCESS;
    }
    if (typeid(*msg) != typeid(Message)) { // it has no subclasses; a dynamic_cast takes ten times as long
        Log(Level::kError, "SetOutput(%u): the message was not made by the runtime", output);
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    MessagePtr made = std::static_pointer_cast<Message>(msg);
    if (labels != nullptr) {
        made->head().data_label = labels->data;
        made->head().route_label = labels->route;
        made->KeepLabel();
    }
    const int code = call_->Send(output, std::move(made));
    if (code != kOk) {
        Log(Level::kError, "SetOutput(%u): %s", output, node_->bus->Explain(code, 0).c_str());
    }
    return code == kOk ? FLOW_FUNC_SUCCESS : FlowFunc::FLOW_FUNC_ERR_QUEUE_ERROR;
}

int32_t RunContext::SetOutput(uint32_t outIdx, FlowMsgPtr outMsg)
{
    const int32_t code = CheckOutput(outIdx);
    return code == FLOW_FUNC_SUCCESS ? Send(outIdx, outMsg, nullptr) : code;
}

int32_t RunContext::SetOutput(uint32_t outIdx, FlowMsgPtr outMsg, const FlowFunc::OutOptions &options)
{
    return SetMultiOutputs(outIdx, {std::move(outMsg)}, options);
}

int32_t RunContext::SetMultiOutputs(uint32_t outIdx, const std::vector<FlowMsgPtr> &outMsgs,
                                    const FlowFunc::OutOptions &options)
{
    int32_t code = CheckOutput(outIdx);
    if (code != FLOW_FUNC_SUCCESS) {
        return code;
    }
    std::vector<Labels> labels;
    const FlowFunc::BalanceConfig *const balance = options.GetBalanceConfig();
    if (balance != nullptr) {
        const char *reason = nullptr;
        code = BalanceLabels(*balance, node_->is_scatter, node_->is_gather, outMsgs.size(), &labels, &reason);
        if (code != FLOW_FUNC_SUCCESS) {
            Log(Level::kError, "SetMultiOutputs(%u): %s", outIdx, reason);
            return code;
        }
    }
    for (size_t i = 0; i < outMsgs.size(); i++) { // all are tried; the last failure counts
        const int32_t sent = Send(outIdx, outMsgs[i], labels.empty() ? nullptr : &labels[i]);
        code = sent == FLOW_FUNC_SUCCESS ? code : sent;
    }
    return code;
}

int32_t RunContext::RunFlowModel(const char *modelKey, const std::vector<FlowMsgPtr> &inputMsgs,
                                 std::vector<FlowMsgPtr> &outputMsgs, int32_t timeout)
{
    const auto found = modelKey == nullptr ? node_->invoked.end() : node_->invoked.find(modelKey);
    if (found == node_->invoked.end()) {
        Log(Level::kError, "RunFlowModel: there is no model %s", modelKey == nullptr ? "(null)" : modelKey);
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    return found->second->Run(inputMsgs, &outputMsgs, timeout, node_->is_suspended);
}

int32_t RunContext::GetUserData(void *data, size_t size, size_t offset) const
{
    if (data == nullptr || size == 0 || offset >= kUserDataSize || size > kUserDataSize - offset) {
        Log(Level::kError, "GetUserData: %zu bytes from %zu do not lie in the %llu there are", size, offset,
            static_cast<unsigned long long>(kUserDataSize));
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    Head head;
    Bytes members;
    if (!call_->Inherit(&head, &members)) {
        Log(Level::kError, "GetUserData: there was no input yet");
        return FLOW_FUNC_FAILED;
    }
    memcpy(data, head.user_data + offset, size);
    return FLOW_FUNC_SUCCESS;
}

void RunContext::RaiseException(int32_t expCode, uint64_t userContextId)
{
    if (!call_->Raise(expCode, userContextId)) {
        Log(Level::kError, "RaiseException(%d): there is no input, or one was raised for it already", expCode);
    }
}

bool RunContext::GetException(int32_t &expCode, uint64_t &userContextId)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const Raised given = std::exchange(delivered_, Raised());
    if (given.is_set) {
        expCode = given.code;
        userContextId = given.user_context_id;
    }
    return given.is_set;
}

void RunContext::Deliver(int32_t code, uint64_t user_context_id)
{
    const std::lock_guard<std::mutex> guard(lock_);
    delivered_ = Raised{true, code, user_context_id};
}

}  // namespace dflow
