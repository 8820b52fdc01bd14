/// Messages and tensors.
#ifndef FLOW_FUNC_FLOW_MSG_H
#define FLOW_FUNC_FLOW_MSG_H

#include <cstdint>
#include <memory>
#include <vector>

#include "flow_func_defines.h"
#include "tensor_data_type.h"

namespace FlowFunc {
/// What a message carries.
enum class MsgType : uint16_t {
    MSG_TYPE_TENSOR_DATA = 0,
    MSG_TYPE_RAW_MSG = 1,
    MSG_TYPE_TENSOR_LIST = 2,
    MSG_TYPE_USER_DEFINE_START = 1024
};

/// Bits of the flow flags.
enum class FlowFlag : uint32_t { FLOW_FLAG_EOS = (1U << 0U), FLOW_FLAG_SEG = (1U << 1U) };

/// A tensor in a message buffer.
class FLOW_FUNC_VISIBILITY Tensor {
public:
    Tensor() = default;

    virtual ~Tensor() = default;

    /// Dimensions; the reference is valid until Reshape. A scalar has none.
    virtual const std::vector<int64_t> &GetShape() const = 0;

    virtual TensorDataType GetDataType() const = 0;

    /// The elements. Those of an input may be shared with other readers: nothing is copied when they are written.
    virtual void *GetData() const = 0;

    /// Bytes of the elements.
    virtual uint64_t GetDataSize() const = 0;

    /// Number of elements, 1 for a scalar; negative if it cannot be told.
    virtual int64_t GetElementCnt() const = 0;

    /// Change the dimensions in place; at most 32, and as many elements as before.
    virtual int32_t Reshape(const std::vector<int64_t> &shape);

    /// Bytes there are for elements, at least GetDataSize.
    virtual uint64_t GetDataBufferSize() const;
};

/// Makes tensors that belong to no message yet; MetaRunContext::ToFlowMsg makes messages of them.
class FLOW_FUNC_VISIBILITY FlowBufferFactory {
public:
    /// A tensor whose elements are not initialised, or a null pointer.
    static std::shared_ptr<Tensor> AllocTensor(const std::vector<int64_t> &shape, TensorDataType dataType,
                                               uint32_t align = 512U);
};

/// A message. Only messages made by the runtime can be sent.
class FLOW_FUNC_VISIBILITY FlowMsg {
public:
    FlowMsg() = default;

    virtual ~FlowMsg() = default;

    virtual MsgType GetMsgType() const = 0;

    /// The first tensor, or a null pointer if there is none. It lives as long as the message.
    virtual Tensor *GetTensor() const = 0;

    virtual int32_t GetRetCode() const = 0;

    /// Codes of users are FLOW_FUNC_ERR_USER_DEFINE_START to FLOW_FUNC_ERR_USER_DEFINE_END.
    virtual void SetRetCode(int32_t retCode) = 0;

    virtual void SetStartTime(uint64_t startTime) = 0;

    virtual uint64_t GetStartTime() const = 0;

    virtual void SetEndTime(uint64_t endTime) = 0;

    virtual uint64_t GetEndTime() const = 0;

    /// Sets all bits.
    virtual void SetFlowFlags(uint32_t flags) = 0;

    virtual uint32_t GetFlowFlags() const = 0;

    /// Messages with the same transaction and label go to the same instance; 0 is no label.
    virtual void SetRouteLabel(uint32_t routeLabel) = 0;

    /// UINT64_MAX if there is none.
    virtual uint64_t GetTransactionId() const;

    /// All tensors; they live as long as the message.
    virtual const std::vector<Tensor *> GetTensorList() const;

    /// Address and bytes of the payload, the descriptor of a tensor included.
    virtual int32_t GetRawData(void *&dataPtr, uint64_t &dataSize) const;

    virtual void SetMsgType(MsgType msgType);

    /// 0 lets the runtime choose.
    virtual void SetTransactionId(uint64_t transactionId);
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_FLOW_MSG_H
