#ifndef FLOW_FUNC_ASCEND_STRING_H
#define FLOW_FUNC_ASCEND_STRING_H

#pragma message("ascend_string.h is deprecated and may be removed after 2027-06; include flow_func_ascend_string.h")

#include "flow_func_ascend_string.h"

#endif  // FLOW_FUNC_ASCEND_STRING_H
