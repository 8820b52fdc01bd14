// The contexts that functions get: MetaParams, MetaRunContext, MetaContext.
#ifndef DFLOW_UDF_CONTEXTS_H
#define DFLOW_UDF_CONTEXTS_H

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "attrs.h"
#include "call.h"
#include "cancelled.h"
#include "failed_calls.h"
#include "flow_func/meta_context.h"
#include "flow_func/meta_params.h"
#include "flow_func/meta_run_context.h"
#include "invoke.h"
#include "out_options.h"
#include "trace.h"

namespace dflow {
// What a node instance is, and what its functions share.
struct Node {
    std::string name;
    std::string work_path;
    int32_t device_id = 0;
    int32_t instance = 0;
    int32_t instance_count = 1;
    size_t input_num = 0;
    bool stops_on_error = false;
    bool catches_exceptions = false;
    bool checks_inputs = false;
    bool is_scatter = false;
    bool is_gather = false;
    std::string scope;
    Attrs attrs;
    NoticeMap notices;
    AlignLimits limits;
    Cancelled cancelled{nullptr};
    const uint32_t *failed_calls_queue = nullptr; // while it is configured only
    FailedCalls failed_calls{nullptr, nullptr};
    Bus *bus = nullptr;
    Outputs *outputs = nullptr;
    InvokedModels invoked;
    std::unique_ptr<CallTrace> trace; // null if nobody wants one
    std::function<void()> on_raised; // a function has raised an exception
    std::atomic<bool> is_suspended{false};
};

// Whose memory FlowBufferFactory takes: the instance of the calling thread, or else the last one that ran.
Bus *CurrentBus();
void SetThreadBus(Bus *bus);
void ForgetBus(Bus *bus);

class Params : public FlowFunc::MetaParams {
public:
    explicit Params(const Node *node) : node_(node) {}

    const char *GetName() const override;
    std::shared_ptr<const FlowFunc::AttrValue> GetAttr(const char *attrName) const override;
    size_t GetInputNum() const override;
    size_t GetOutputNum() const override;
    const char *GetWorkPath() const override;
    int32_t GetRunningDeviceId() const override;
    int32_t GetRunningInstanceId() const override;
    int32_t GetRunningInstanceNum() const override;

private:
    const Node *node_;
};

using FlowMsgPtr = std::shared_ptr<FlowFunc::FlowMsg>;

// The context of one function. The node and the call live longer than the instance's functions.
class RunContext : public FlowFunc::MetaRunContext {
public:
    RunContext(Node *node, const FuncInfo *info, Call *call) : node_(node), info_(info), call_(call) {}

    FlowMsgPtr AllocTensorMsg(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType) override;
    FlowMsgPtr AllocEmptyDataMsg(FlowFunc::MsgType msgType) override;
    int32_t SetOutput(uint32_t outIdx, FlowMsgPtr outMsg) override;
    int32_t RunFlowModel(const char *modelKey, const std::vector<FlowMsgPtr> &inputMsgs,
                         std::vector<FlowMsgPtr> &outputMsgs, int32_t timeout) override;
    int32_t GetUserData(void *data, size_t size, size_t offset = 0U) const override;
    int32_t SetOutput(uint32_t outIdx, FlowMsgPtr outMsg, const FlowFunc::OutOptions &options) override;
    int32_t SetMultiOutputs(uint32_t outIdx, const std::vector<FlowMsgPtr> &outMsgs,
                            const FlowFunc::OutOptions &options) override;
    FlowMsgPtr AllocTensorMsgWithAlign(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType,
                                       uint32_t align) override;
    FlowMsgPtr AllocTensorListMsg(const std::vector<std::vector<int64_t>> &shapes,
                                  const std::vector<FlowFunc::TensorDataType> &dataTypes,
                                  uint32_t align = 512U) override;
    void RaiseException(int32_t expCode, uint64_t userContextId) override;
    bool GetException(int32_t &expCode, uint64_t &userContextId) override;
    FlowMsgPtr AllocRawDataMsg(int64_t size, uint32_t align = 512U) override;
    FlowMsgPtr ToFlowMsg(std::shared_ptr<FlowFunc::Tensor> tensor) override;

    // An exception that the next GetException gives.
    void Deliver(int32_t code, uint64_t user_context_id);

    // The messages made since the last call that the function still has.
    std::vector<std::weak_ptr<Message>> TakeKept();
    void ForgetMade();

private:
    FlowMsgPtr Made(const char *what, MessagePtr msg, const std::string &fault);
    int32_t CheckOutput(uint32_t output) const;
    int32_t Send(uint32_t output, const FlowMsgPtr &msg, const Labels *labels);

    Node *node_;
    const FuncInfo *info_;
    Call *call_;
    std::mutex lock_;
    Raised delivered_;
    std::vector<std::weak_ptr<Message>> made_;
    std::atomic<bool> has_made_{false};
};

// The context of a single function: its parameters and its run context in one.
class SingleContext : public FlowFunc::MetaContext {
public:
    SingleContext(std::shared_ptr<Params> params, std::shared_ptr<RunContext> run)
        : params_(std::move(params)), run_(std::move(run))
    {
    }

    FlowMsgPtr AllocTensorMsg(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType) override;
    int32_t SetOutput(uint32_t outIdx, FlowMsgPtr outMsg) override;
    std::shared_ptr<const FlowFunc::AttrValue> GetAttr(const char *attrName) const override;
    size_t GetInputNum() const override;
    size_t GetOutputNum() const override;
    FlowMsgPtr AllocEmptyDataMsg(FlowFunc::MsgType msgType) override;
    int32_t RunFlowModel(const char *modelKey, const std::vector<FlowMsgPtr> &inputMsgs,
                         std::vector<FlowMsgPtr> &outputMsgs, int32_t timeout) override;
    const char *GetWorkPath() const override;
    int32_t GetRunningDeviceId() const override;
    int32_t GetUserData(void *data, size_t size, size_t offset = 0U) const override;
    int32_t SetOutput(uint32_t outIdx, FlowMsgPtr outMsg, const FlowFunc::OutOptions &options) override;
    int32_t SetMultiOutputs(uint32_t outIdx, const std::vector<FlowMsgPtr> &outMsgs,
                            const FlowFunc::OutOptions &options) override;
    FlowMsgPtr AllocTensorMsgWithAlign(const std::vector<int64_t> &shape, FlowFunc::TensorDataType dataType,
                                       uint32_t align) override;
    void RaiseException(int32_t expCode, uint64_t userContextId) override;
    bool GetException(int32_t &expCode, uint64_t &userContextId) override;

private:
    std::shared_ptr<Params> params_;
    std::shared_ptr<RunContext> run_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_CONTEXTS_H
