/// What a function of a multi function may do during a call.
#ifndef FLOW_FUNC_META_RUN_CONTEXT_H
#define FLOW_FUNC_META_RUN_CONTEXT_H

#include <cstdint>
#include <memory>
#include <vector>

#include "dflow_attr_value.h"
#include "flow_func_defines.h"
#include "flow_msg.h"
#include "out_options.h"

namespace FlowFunc {
/// Context of one function; it may be kept and used from other threads.
///
/// Messages that are made here inherit the head of the current call's first input: transaction, user data, times,
/// flags and labels. Their elements are not initialised. Whatever cannot be made is a null pointer.
class FLOW_FUNC_VISIBILITY MetaRunContext {
public:
    MetaRunContext() = default;

    virtual ~MetaRunContext() = default;

    /// A message with one tensor.
    virtual std::shared_ptr<FlowMsg> AllocTensorMsg(const std::vector<int64_t> &shape, TensorDataType dataType) = 0;

    /// A message without data; only MSG_TYPE_TENSOR_DATA.
    virtual std::shared_ptr<FlowMsg> AllocEmptyDataMsg(MsgType msgType) = 0;

    /// Send a message to an output of the node; a null pointer sends nothing and is good.
    ///
    /// The elements are not copied: writing them afterwards is seen by the reader. Gives FLOW_FUNC_ERR_PARAM_INVALID for
    /// an output that the node does not have or the function may not use, or a message the runtime has not made.
    virtual int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg) = 0;

    /// Run a model given by AddInvokedClosure and append its outputs.
    ///
    /// `timeout` in milliseconds holds for each output: 0 tries once, -1 waits for ever. Where a branch was not taken
    /// the message is null. The codes of messages with data are not looked at. Gives FLOW_FUNC_ERR_PARAM_INVALID for an
    /// unknown key, a wrong number of inputs or foreign messages, FLOW_FUNC_FAILED if the model takes no more,
    /// FLOW_FUNC_ERR_TIME_OUT_ERROR if an output did not come; and where a node in there failed, the code of its own
    /// that it gave, else FLOW_FUNC_FAILED. What failed is logged.
    virtual int32_t RunFlowModel(const char *modelKey, const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs,
                                 std::vector<std::shared_ptr<FlowMsg>> &outputMsgs, int32_t timeout) = 0;

    /// Copy `size` bytes from `offset` of the 64 bytes of user data of the current input.
    virtual int32_t GetUserData(void *data, size_t size, size_t offset = 0U) const = 0;

    /// Send one message with options.
    virtual int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg, const OutOptions &options) = 0;

    /// Send several messages in order.
    virtual int32_t SetMultiOutputs(uint32_t outIdx, const std::vector<std::shared_ptr<FlowMsg>> &outMsgs,
                                    const OutOptions &options) = 0;

    /// A message with one tensor; `align` is 32, 64, 128, 256, 512 or 1024.
    virtual std::shared_ptr<FlowMsg> AllocTensorMsgWithAlign(const std::vector<int64_t> &shape,
                                                             TensorDataType dataType, uint32_t align);

    /// A message with several tensors.
    virtual std::shared_ptr<FlowMsg> AllocTensorListMsg(const std::vector<std::vector<int64_t>> &shapes,
                                                        const std::vector<TensorDataType> &dataTypes,
                                                        uint32_t align = 512U);

    /// Report an exception for the transaction of the current input; what is still to come of it is dropped everywhere.
    virtual void RaiseException(int32_t expCode, uint64_t userContextId);

    /// True once after another function's exception was delivered, by a call without inputs.
    virtual bool GetException(int32_t &expCode, uint64_t &userContextId);

    /// A message of `size` bytes without a descriptor.
    virtual std::shared_ptr<FlowMsg> AllocRawDataMsg(int64_t size, uint32_t align = 512U);

    /// A message around a tensor made by FlowBufferFactory.
    virtual std::shared_ptr<FlowMsg> ToFlowMsg(std::shared_ptr<Tensor> tensor);
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_META_RUN_CONTEXT_H
