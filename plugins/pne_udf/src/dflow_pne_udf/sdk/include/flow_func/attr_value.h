#ifndef FLOW_FUNC_ATTR_VALUE_H
#define FLOW_FUNC_ATTR_VALUE_H

#pragma message("attr_value.h is deprecated and may be removed after 2027-06-30; include dflow_attr_value.h")

#include "dflow_attr_value.h"

#endif  // FLOW_FUNC_ATTR_VALUE_H
