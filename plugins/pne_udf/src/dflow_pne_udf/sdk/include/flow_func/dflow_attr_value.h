/// Attributes: the init parameters of a function.
#ifndef FLOW_FUNC_DFLOW_ATTR_VALUE_H
#define FLOW_FUNC_DFLOW_ATTR_VALUE_H

#include <memory>
#include <vector>

#include "flow_func_ascend_string.h"
#include "flow_func_defines.h"
#include "tensor_data_type.h"

namespace FlowFunc {
/// Value of one attribute.
///
/// Each getter gives 0, or FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH if the value is of another type; there is no conversion.
/// A getter of a list appends; it accepts any list, and appends nothing from one of another type.
class FLOW_FUNC_VISIBILITY AttrValue {
public:
    AttrValue() = default;

    virtual ~AttrValue() = default;

    AttrValue(const AttrValue &) = delete;

    AttrValue(AttrValue &&) = delete;

    AttrValue &operator=(const AttrValue &) = delete;

    AttrValue &operator=(AttrValue &&) = delete;

    virtual int32_t GetVal(AscendString &value) const = 0;

    virtual int32_t GetVal(std::vector<AscendString> &value) const = 0;

    virtual int32_t GetVal(int64_t &value) const = 0;

    virtual int32_t GetVal(std::vector<int64_t> &value) const = 0;

    virtual int32_t GetVal(std::vector<std::vector<int64_t>> &value) const = 0;

    virtual int32_t GetVal(float &value) const = 0;

    virtual int32_t GetVal(std::vector<float> &value) const = 0;

    virtual int32_t GetVal(bool &value) const = 0;

    virtual int32_t GetVal(std::vector<bool> &value) const = 0;

    virtual int32_t GetVal(TensorDataType &value) const = 0;

    virtual int32_t GetVal(std::vector<TensorDataType> &value) const = 0;
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_DFLOW_ATTR_VALUE_H
