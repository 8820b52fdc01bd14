/// What a multi function is told when it is initialised.
#ifndef FLOW_FUNC_META_PARAMS_H
#define FLOW_FUNC_META_PARAMS_H

#include <cstdint>
#include <memory>

#include "dflow_attr_value.h"
#include "flow_func_defines.h"

namespace FlowFunc {
/// The node, its attributes and its instance. Immutable; texts live as long as the object.
class FLOW_FUNC_VISIBILITY MetaParams {
public:
    MetaParams() = default;

    virtual ~MetaParams() = default;

    /// Name of the process point.
    virtual const char *GetName() const = 0;

    /// An attribute, or a null pointer.
    virtual std::shared_ptr<const AttrValue> GetAttr(const char *attrName) const = 0;

    /// Read an attribute: FLOW_FUNC_ERR_ATTR_NOT_EXITS if there is none, else what AttrValue::GetVal gives.
    template <class T>
    int32_t GetAttr(const char *attrName, T &value) const
    {
        const std::shared_ptr<const AttrValue> attr = GetAttr(attrName);
        return attr == nullptr ? FLOW_FUNC_ERR_ATTR_NOT_EXITS : attr->GetVal(value);
    }

    /// Inputs of the whole node.
    virtual size_t GetInputNum() const = 0;

    /// Outputs of the whole node.
    virtual size_t GetOutputNum() const = 0;

    /// Folder with the library and what was released beside it.
    virtual const char *GetWorkPath() const = 0;

    virtual int32_t GetRunningDeviceId() const = 0;

    /// Number of this instance among those of the node, from 0.
    virtual int32_t GetRunningInstanceId() const;

    /// Instances of the node.
    virtual int32_t GetRunningInstanceNum() const;
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_META_PARAMS_H
