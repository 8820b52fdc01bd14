// Attributes: a map read from the flat form of flow_func_runtime.h.
#ifndef DFLOW_UDF_ATTRS_H
#define DFLOW_UDF_ATTRS_H

#include <map>
#include <memory>
#include <string>

#include "flow_func/dflow_attr_value.h"

namespace dflow {
using Attrs = std::map<std::string, std::shared_ptr<const FlowFunc::AttrValue>>;

// False if the bytes are not in that form.
bool ReadAttrs(const void *data, uint64_t size, Attrs *attrs);
}  // namespace dflow

#endif  // DFLOW_UDF_ATTRS_H
