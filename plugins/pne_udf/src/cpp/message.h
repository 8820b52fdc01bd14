// Messages and tensors in blocks.
#ifndef DFLOW_UDF_MESSAGE_H
#define DFLOW_UDF_MESSAGE_H

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bus.h"
#include "flow_func/flow_msg.h"
#include "wire.h"

namespace dflow {
class Message;

// A tensor in the body of a message, at a descriptor.
class BlockTensor : public FlowFunc::Tensor {
public:
    // `desc` is followed by `capacity` bytes. Data beyond what the shape says is not counted.
    BlockTensor(Message *owner, Desc *desc, uint64_t capacity);

    const std::vector<int64_t> &GetShape() const override
    {
        return shape_;
    }

    FlowFunc::TensorDataType GetDataType() const override
    {
        return static_cast<FlowFunc::TensorDataType>(desc_->dtype);
    }

    void *GetData() const override
    {
        return desc_ + 1;
    }

    uint64_t GetDataSize() const override
    {
        return size_;
    }

    int64_t GetElementCnt() const override;

    int32_t Reshape(const std::vector<int64_t> &shape) override;

    uint64_t GetDataBufferSize() const override
    {
        return capacity_;
    }

    Message *owner() const
    {
        return owner_;
    }

private:
    Message *owner_;
    Desc *desc_;
    uint64_t capacity_;
    uint64_t size_;
    std::vector<int64_t> shape_;
};

// A message; it holds one reference to its block. One that only ends something has no block.
//
// The head is a copy: it is written back when the message is sent, into a block of its own if the block may have other
// readers by then.
class Message final : public FlowFunc::FlowMsg, public std::enable_shared_from_this<Message> {
public:
    // What came out of a queue; takes the reference.
    Message(Bus *bus, const Block &block);

    // One without a body.
    Message(Bus *bus, const Head &head, Bytes aux = Bytes());

    // A fresh one with a body of that many bytes, and room for the members of `aux` behind it.
    Message(Bus *bus, const Block &block, const Head &head, uint64_t body_size, View aux);

    ~Message() override;

    Message(const Message &) = delete;
    Message &operator=(const Message &) = delete;

    FlowFunc::MsgType GetMsgType() const override;
    FlowFunc::Tensor *GetTensor() const override;
    int32_t GetRetCode() const override;
    void SetRetCode(int32_t retCode) override;
    void SetStartTime(uint64_t startTime) override;
    uint64_t GetStartTime() const override;
    void SetEndTime(uint64_t endTime) override;
    uint64_t GetEndTime() const override;
    void SetFlowFlags(uint32_t flags) override;
    uint32_t GetFlowFlags() const override;
    void SetRouteLabel(uint32_t routeLabel) override;
    uint64_t GetTransactionId() const override;
    const std::vector<FlowFunc::Tensor *> GetTensorList() const override;
    int32_t GetRawData(void *&dataPtr, uint64_t &dataSize) const override;
    void SetMsgType(FlowFunc::MsgType msgType) override;
    void SetTransactionId(uint64_t transactionId) override;

    Head &head()
    {
        return head_;
    }

    const Head &head() const
    {
        return head_;
    }

    View body() const
    {
        return View{block_.data == nullptr ? nullptr : block_.data + kHeadSize, head_.body_size};
    }

    View aux() const;

    // The head as it came, whatever was set on the message since.
    Head came() const;

    const Block &block() const
    {
        return block_;
    }

    const Bus *bus() const
    {
        return bus_;
    }

    bool Is(uint8_t bits) const
    {
        return (head_.data_flag & bits) != 0;
    }

    std::pair<uint64_t, uint32_t> key() const
    {
        return {head_.trans_id, head_.data_label};
    }

    // From here on the aux section is this one, whatever lies in the block.
    void ReplaceAux(Bytes aux)
    {
        own_aux_ = std::move(aux);
        has_own_aux_ = true;
    }

    // Keep a data label of one's own when the message becomes a part.
    void KeepLabel()
    {
        keeps_label_ = true;
    }

    bool keeps_label() const
    {
        return keeps_label_;
    }

    // A reference to a block with this body under another head and aux section, to be given to a queue.
    //
    // It is the message's own block where it has that head already, or where nobody else can have seen it; a copy
    // otherwise. `is_last` says that the message is not used afterwards, so that its reference may be given.
    int Seal(const Head &head, View aux, bool is_last, int64_t wait_ns, Block *out);

private:
    void ReadTensors() const;
    bool Matches(const Head &head, View aux) const;
    int SealCopy(const Head &head, View aux, int64_t wait_ns, Block *out);

    Bus *bus_;
    Block block_;
    Head head_;
    Bytes own_aux_;
    bool has_own_aux_ = false;
    bool is_fresh_ = false;
    bool keeps_label_ = false;
    mutable bool is_read_ = false;
    mutable std::vector<std::unique_ptr<BlockTensor>> tensors_;
};

using MessagePtr = std::shared_ptr<Message>;

// Head of a message made for an output: good, not null, everything else inherited.
Head Derive(const Head &head, uint16_t msg_type);

// Messages for functions to fill. `inherit` gives the head, `aux` the members; null if it cannot be made.
MessagePtr AllocTensors(Bus *bus, const Head &inherit, View aux, const std::vector<std::vector<int64_t>> &shapes,
                        const std::vector<FlowFunc::TensorDataType> &types, uint32_t align, bool is_list,
                        std::string *fault);
MessagePtr AllocRaw(Bus *bus, const Head &inherit, View aux, int64_t size, std::string *fault);
MessagePtr AllocEmpty(Bus *bus, const Head &inherit, View aux);
}  // namespace dflow

#endif  // DFLOW_UDF_MESSAGE_H
