/// Error codes and visibility of the flow function API.
#ifndef FLOW_FUNC_FLOW_FUNC_DEFINES_H
#define FLOW_FUNC_FLOW_FUNC_DEFINES_H

#include <cstddef>
#include <cstdint>

#include "flow_func_version.h"

#define FLOW_FUNC_VISIBILITY __attribute__((visibility("default")))

namespace FlowFunc {
/// Good.
constexpr int32_t FLOW_FUNC_SUCCESS = 0;

/// An argument is wrong.
constexpr int32_t FLOW_FUNC_ERR_PARAM_INVALID = 164000;
/// There is no attribute of that name. (The spelling is part of the interface.)
constexpr int32_t FLOW_FUNC_ERR_ATTR_NOT_EXITS = 164001;
/// The attribute is of another type.
constexpr int32_t FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH = 164002;

/// Code of the message that stands for an input which did not come in time.
constexpr int32_t FLOW_FUNC_ERR_DATA_ALIGN_FAILED = 364000;

/// It failed inside the runtime.
constexpr int32_t FLOW_FUNC_FAILED = 564000;
/// Nothing came within the limit.
constexpr int32_t FLOW_FUNC_ERR_TIME_OUT_ERROR = 564001;
/// Not supported, or not overridden.
constexpr int32_t FLOW_FUNC_ERR_NOT_SUPPORT = 564002;
/// The graph starts over (`recover`).
constexpr int32_t FLOW_FUNC_STATUS_REDEPLOYING = 564003;
/// The node is ending, or no more input will come.
constexpr int32_t FLOW_FUNC_STATUS_EXIT = 564004;
/// A driver failed.
constexpr int32_t FLOW_FUNC_ERR_DRV_ERROR = 564100;
/// A message buffer is broken.
constexpr int32_t FLOW_FUNC_ERR_MEM_BUF_ERROR = 564101;
/// A queue failed.
constexpr int32_t FLOW_FUNC_ERR_QUEUE_ERROR = 564102;
/// An event failed.
constexpr int32_t FLOW_FUNC_ERR_EVENT_ERROR = 564103;

/// First and last code that is free for users.
constexpr int32_t FLOW_FUNC_ERR_USER_DEFINE_START = 9900000;
constexpr int32_t FLOW_FUNC_ERR_USER_DEFINE_END = 9999999;
}  // namespace FlowFunc

#endif  // FLOW_FUNC_FLOW_FUNC_DEFINES_H
