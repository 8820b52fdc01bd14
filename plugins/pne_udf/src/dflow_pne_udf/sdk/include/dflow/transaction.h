/// What flow_func has no call for: whether somebody still waits for what a function works on.
#ifndef DFLOW_TRANSACTION_H
#define DFLOW_TRANSACTION_H

#include <memory>

#include "../flow_func/flow_msg.h"

namespace dflow {
/// Whether the transaction of a message was cancelled, or passed its deadline, so that what comes of it is let go.
///
/// A function that works for long asks now and then (it costs some nanoseconds) and returns early. Any thread may ask, of
/// any message the function was given. A batch is cancelled when all its members are. False for a null pointer, and where
/// the function runs without a graph.
FLOW_FUNC_VISIBILITY bool IsCancelled(const std::shared_ptr<FlowFunc::FlowMsg> &msg);
}  // namespace dflow

#endif  // DFLOW_TRANSACTION_H
