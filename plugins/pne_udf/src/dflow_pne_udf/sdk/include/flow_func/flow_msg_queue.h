/// Inputs of functions that take messages themselves.
#ifndef FLOW_FUNC_FLOW_MSG_QUEUE_H
#define FLOW_FUNC_FLOW_MSG_QUEUE_H

#include <cstdint>
#include <memory>

#include "flow_func_defines.h"
#include "flow_msg.h"

namespace FlowFunc {
/// An input of a function that was registered with queues. Any thread may call.
class FLOW_FUNC_VISIBILITY FlowMsgQueue {
public:
    FlowMsgQueue() = default;

    virtual ~FlowMsgQueue() = default;

    /// Take the oldest message.
    ///
    /// `timeout` is in milliseconds: 0 tries once, -1 waits for ever. Gives FLOW_FUNC_ERR_TIME_OUT_ERROR if none came,
    /// FLOW_FUNC_STATUS_REDEPLOYING when the graph starts over (`recover`), FLOW_FUNC_STATUS_EXIT when no more will
    /// come or the node ends, and the code of the message itself, which is set then too.
    virtual int32_t Dequeue(std::shared_ptr<FlowMsg> &flowMsg, int32_t timeout = -1) = 0;

    /// Messages it can hold.
    virtual int32_t Depth() const = 0;

    /// Messages in it now.
    virtual int32_t Size() const = 0;
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_FLOW_MSG_QUEUE_H
