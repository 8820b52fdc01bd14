/// What a single function may ask and do.
#ifndef FLOW_FUNC_META_CONTEXT_H
#define FLOW_FUNC_META_CONTEXT_H

#include <cstdint>
#include <memory>
#include <vector>

#include "dflow_attr_value.h"
#include "flow_func_defines.h"
#include "flow_msg.h"
#include "out_options.h"

namespace FlowFunc {
/// Context of a function derived from MetaFlowFunc; what it does is described at MetaParams and MetaRunContext.
class FLOW_FUNC_VISIBILITY MetaContext {
public:
    MetaContext() = default;

    virtual ~MetaContext() = default;

    virtual std::shared_ptr<FlowMsg> AllocTensorMsg(const std::vector<int64_t> &shape, TensorDataType dataType) = 0;

    virtual int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg) = 0;

    virtual std::shared_ptr<const AttrValue> GetAttr(const char *attrName) const = 0;

    /// Read an attribute: FLOW_FUNC_ERR_ATTR_NOT_EXITS if there is none, else what AttrValue::GetVal gives.
    template <class T>
    int32_t GetAttr(const char *attrName, T &value) const
    {
        const std::shared_ptr<const AttrValue> attr = GetAttr(attrName);
        return attr == nullptr ? FLOW_FUNC_ERR_ATTR_NOT_EXITS : attr->GetVal(value);
    }

    virtual size_t GetInputNum() const = 0;

    virtual size_t GetOutputNum() const = 0;

    virtual std::shared_ptr<FlowMsg> AllocEmptyDataMsg(MsgType msgType) = 0;

    virtual int32_t RunFlowModel(const char *modelKey, const std::vector<std::shared_ptr<FlowMsg>> &inputMsgs,
                                 std::vector<std::shared_ptr<FlowMsg>> &outputMsgs, int32_t timeout) = 0;

    virtual const char *GetWorkPath() const = 0;

    virtual int32_t GetRunningDeviceId() const = 0;

    virtual int32_t GetUserData(void *data, size_t size, size_t offset = 0U) const = 0;

    virtual int32_t SetOutput(uint32_t outIdx, std::shared_ptr<FlowMsg> outMsg, const OutOptions &options)
    {
        (void)outIdx;
        (void)outMsg;
        (void)options;
        return FLOW_FUNC_ERR_NOT_SUPPORT;
    }

    virtual int32_t SetMultiOutputs(uint32_t outIdx, const std::vector<std::shared_ptr<FlowMsg>> &outMsgs,
                                    const OutOptions &options)
    {
        (void)outIdx;
        (void)outMsgs;
        (void)options;
        return FLOW_FUNC_ERR_NOT_SUPPORT;
    }

    virtual std::shared_ptr<FlowMsg> AllocTensorMsgWithAlign(const std::vector<int64_t> &shape,
                                                             TensorDataType dataType, uint32_t align);

    virtual void RaiseException(int32_t expCode, uint64_t userContextId);

    virtual bool GetException(int32_t &expCode, uint64_t &userContextId);
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_META_CONTEXT_H
