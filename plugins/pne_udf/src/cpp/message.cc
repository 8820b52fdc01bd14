#include "message.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "log.h"

namespace dflow {
using FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
using FlowFunc::FLOW_FUNC_SUCCESS;

namespace {
constexpr int64_t kFormatNd = 3;
constexpr int64_t kStringType = 13;

void WriteDesc(Desc *desc, const std::vector<int64_t> &shape, FlowFunc::TensorDataType type, uint64_t size)
{
    memset(desc, 0, sizeof(*desc));
    desc->dtype = static_cast<int64_t>(type);
    desc->rank = static_cast<int64_t>(shape.size());
    std::copy(shape.begin(), shape.end(), desc->dims);
    desc->format = kFormatNd;
    desc->data_size = size;
}
}  // namespace

BlockTensor::BlockTensor(Message *owner, Desc *desc, uint64_t capacity)
    : owner_(owner), desc_(desc), capacity_(capacity), size_(capacity)
{
    const int64_t rank = std::min<int64_t>(std::max<int64_t>(desc->rank, 0), kMaxRank);
    shape_.assign(desc->dims, desc->dims + rank);
    const int64_t wanted = DataBytes(shape_, static_cast<int32_t>(desc->dtype));
    if (wanted >= 0 && static_cast<uint64_t>(wanted) <= capacity) {
        size_ = static_cast<uint64_t>(wanted);
    } else if (wanted >= 0 || desc->dtype != kStringType) {
        Log(Level::kError, "a tensor needs %lld bytes, its message has %llu", static_cast<long long>(wanted),
            static_cast<unsigned long long>(capacity));
    }
}

int64_t BlockTensor::GetElementCnt() const
{
    return ElementCount(shape_);
}

int32_t BlockTensor::Reshape(const std::vector<int64_t> &shape)
{
    if (shape.size() > kMaxRank || ElementCount(shape) < 0 || ElementCount(shape) != ElementCount(shape_)) {
        Log(Level::kError, "Reshape: %zu dimensions with %lld elements, the tensor has %lld", shape.size(),
            static_cast<long long>(ElementCount(shape)), static_cast<long long>(ElementCount(shape_)));
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    std::fill(desc_->dims, desc_->dims + kMaxRank, 0);
    std::copy(shape.begin(), shape.end(), desc_->dims);
    desc_->rank = static_cast<int64_t>(shape.size());
    shape_ = shape;
    return FLOW_FUNC_SUCCESS;
}

Message::Message(Bus *bus, const Block &block) : bus_(bus), block_(block)
{
    if (block.size < kHeadSize) {
        memset(&head_, 0, sizeof(head_));
        return;
    }
    memcpy(&head_, block.data, sizeof(head_));
    const uint64_t room = block.size - kHeadSize;
    if (head_.body_size > room || head_.aux_size > room - head_.body_size) {
        Log(Level::kError, "a message of transaction %llu says it has %llu bytes, its block has %llu",
            static_cast<unsigned long long>(head_.trans_id), static_cast<unsigned long long>(head_.body_size),
            static_cast<unsigned long long>(room));
        head_.body_size = std::min(head_.body_size, room);
        head_.aux_size = 0;
    }
}

Message::Message(Bus *bus, const Head &head, Bytes aux) : bus_(bus), head_(head), own_aux_(std::move(aux))
{
    head_.body_size = 0;
    head_.aux_size = 0;
}

Message::Message(Bus *bus, const Block &block, const Head &head, uint64_t body_size, View aux)
    : bus_(bus), block_(block), head_(head), own_aux_(aux.data, aux.data + aux.size), has_own_aux_(true), is_fresh_(true)
{
    head_.body_size = body_size;
    head_.aux_size = 0;
}

Message::~Message()
{
    if (block_.data != nullptr) {
        bus_->Release(block_);
    }
}

FlowFunc::MsgType Message::GetMsgType() const
{
    return static_cast<FlowFunc::MsgType>(head_.msg_type);
}

FlowFunc::Tensor *Message::GetTensor() const
{
    ReadTensors();
    return tensors_.empty() ? nullptr : tensors_.front().get();
}

int32_t Message::GetRetCode() const
{
    return head_.ret_code;
}

void Message::SetRetCode(int32_t retCode)
{
    if (retCode != 0 && (retCode < FlowFunc::FLOW_FUNC_ERR_USER_DEFINE_START ||
                         retCode > FlowFunc::FLOW_FUNC_ERR_USER_DEFINE_END)) {
        Log(Level::kWarn, "SetRetCode(%d): codes of users are 9900000 to 9999999", retCode);
    }
    head_.ret_code = retCode;
}

void Message::SetStartTime(uint64_t startTime)
{
    head_.start_time = startTime;
}

uint64_t Message::GetStartTime() const
{
    return head_.start_time;
}

void Message::SetEndTime(uint64_t endTime)
{
    head_.end_time = endTime;
}

uint64_t Message::GetEndTime() const
{
    return head_.end_time;
}

void Message::SetFlowFlags(uint32_t flags)
{
    head_.flags = flags;
}

uint32_t Message::GetFlowFlags() const
{
    return head_.flags;
}

void Message::SetRouteLabel(uint32_t routeLabel)
{
    head_.route_label = routeLabel;
}

uint64_t Message::GetTransactionId() const
{
    return head_.trans_id;
}

const std::vector<FlowFunc::Tensor *> Message::GetTensorList() const
{
    ReadTensors();
    std::vector<FlowFunc::Tensor *> list;
    for (const auto &tensor : tensors_) {
        list.push_back(tensor.get());
    }
    return list;
}

int32_t Message::GetRawData(void *&dataPtr, uint64_t &dataSize) const
{
    if (block_.data == nullptr) {
        return FlowFunc::FLOW_FUNC_ERR_MEM_BUF_ERROR;
    }
    dataPtr = block_.data + kHeadSize;
    dataSize = head_.body_size;
    return FLOW_FUNC_SUCCESS;
}

void Message::SetMsgType(FlowFunc::MsgType msgType)
{
    head_.msg_type = static_cast<uint16_t>(msgType);
}

void Message::SetTransactionId(uint64_t transactionId)
{
    head_.trans_id = transactionId;
    head_.data_flag &= static_cast<uint8_t>(~kCustomId);
    head_.data_flag |= static_cast<uint8_t>(transactionId != 0 ? kCustomId : 0);
}

View Message::aux() const
{
    if (has_own_aux_ || block_.data == nullptr) {
        return View{own_aux_.data(), own_aux_.size()};
    }
    return View{block_.data + kHeadSize + head_.body_size, head_.aux_size};
}

Head Message::came() const
{
    Head head = head_;
    if (block_.data != nullptr && !is_fresh_) {
        memcpy(&head, block_.data, sizeof(head));
    }
    return head;
}

void Message::ReadTensors() const
{
    if (is_read_) {
        return;
    }
    is_read_ = true;
    const bool is_list = head_.msg_type == static_cast<uint16_t>(FlowFunc::MsgType::MSG_TYPE_TENSOR_LIST);
    if (block_.data == nullptr || Is(kNull) || (head_.msg_type != 0 && !is_list)) {
        return;
    }
    uint8_t *at = block_.data + kHeadSize;
    uint64_t left = head_.body_size;
    while (left >= kDescSize) {
        auto *const desc = reinterpret_cast<Desc *>(at);
        const uint64_t room = left - kDescSize;
        const uint64_t size = is_list ? desc->data_size : room;
        if (size > room) {
            Log(Level::kError, "a tensor list of transaction %llu is broken",
                static_cast<unsigned long long>(head_.trans_id));
            tensors_.clear();
            return;
        }
        tensors_.push_back(std::make_unique<BlockTensor>(const_cast<Message *>(this), desc, size));
        at += kDescSize + size;
        left = room - size;
    }
}

bool Message::Matches(const Head &head, View aux) const
{
    const uint8_t *const mine = block_.data + kHeadSize + head.body_size;
    return memcmp(block_.data, &head, sizeof(head)) == 0 &&
           (aux.size == 0 || mine == aux.data || memcmp(mine, aux.data, aux.size) == 0);
}

int Message::Seal(const Head &wanted, View aux, bool is_last, int64_t wait_ns, Block *out)
{
    Head head = wanted;
    head.body_size = head_.body_size;
    head.aux_size = static_cast<uint32_t>(aux.size);
    const uint64_t end = kHeadSize + head.body_size;
    if (block_.data == nullptr) {
        return SealCopy(head, aux, wait_ns, out);
    }
    if (is_fresh_ && end + aux.size <= block_.size) {
        memcpy(block_.data, &head, sizeof(head));
        if (aux.size != 0) {
            memcpy(block_.data + end, aux.data, aux.size);
        }
        // From here on the aux section is the one in the block.
        head_.aux_size = head.aux_size;
        has_own_aux_ = is_fresh_ = false;
    } else if (is_fresh_ || !Matches(head, aux)) {
        return SealCopy(head, aux, wait_ns, out);
    }
    *out = block_;
    if (is_last) {
        block_ = Block();
        return kOk;
    }
    return bus_->Retain(block_);
}

int Message::SealCopy(const Head &head, View aux, int64_t wait_ns, Block *out)
{
    const int code = bus_->Alloc(kHeadSize + head.body_size + aux.size, wait_ns, out);
    if (code != kOk) {
        return code;
    }
    memcpy(out->data, &head, sizeof(head));
    if (head.body_size != 0) {
        memcpy(out->data + kHeadSize, block_.data + kHeadSize, head.body_size);
    }
    if (aux.size != 0) {
        memcpy(out->data + kHeadSize + head.body_size, aux.data, aux.size);
    }
    return kOk;
}

Head Derive(const Head &head, uint16_t msg_type)
{
    Head made = head;
    made.ret_code = 0;
    made.data_flag &= kCustomId;
    made.msg_type = msg_type;
    return made;
}

MessagePtr AllocTensors(Bus *bus, const Head &inherit, View aux, const std::vector<std::vector<int64_t>> &shapes,
                        const std::vector<FlowFunc::TensorDataType> &types, uint32_t align, bool is_list,
                        std::string *fault)
{
    const View members = MemberBytes(aux);
    std::vector<uint64_t> sizes;
    uint64_t body_size = 0;
    for (size_t i = 0; i < shapes.size(); i++) {
        const int64_t size = DataBytes(shapes[i], static_cast<int32_t>(types[i]));
        if (size < 0 || static_cast<uint64_t>(size) > std::numeric_limits<int64_t>::max() / 2 - body_size) {
            *fault = "the shape or the data type is not valid";
            return nullptr;
        }
        const uint64_t padding = is_list ? (align - static_cast<uint64_t>(size) % align) % align : 0;
        sizes.push_back(static_cast<uint64_t>(size) + padding);
        body_size += kDescSize + sizes.back();
    }
    Block block;
    const int code = bus->Alloc(kHeadSize + body_size + members.size, bus->alloc_limit(), &block);
    if (code != kOk) {
        *fault = bus->Explain(code, body_size);
        return nullptr;
    }
    const auto type = is_list ? FlowFunc::MsgType::MSG_TYPE_TENSOR_LIST : FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA;
    uint8_t *at = block.data + kHeadSize;
    for (size_t i = 0; i < shapes.size(); i++) {
        WriteDesc(reinterpret_cast<Desc *>(at), shapes[i], types[i], sizes[i]);
        at += kDescSize + sizes[i];
    }
    return std::make_shared<Message>(bus, block, Derive(inherit, static_cast<uint16_t>(type)), body_size, members);
}

MessagePtr AllocRaw(Bus *bus, const Head &inherit, View aux, int64_t size, std::string *fault)
{
    if (size <= 0 || size > std::numeric_limits<int64_t>::max() / 2) {
        *fault = "the size is not valid";
        return nullptr;
    }
    const View members = MemberBytes(aux);
    const auto body_size = static_cast<uint64_t>(size);
    Block block;
    const int code = bus->Alloc(kHeadSize + body_size + members.size, bus->alloc_limit(), &block);
    if (code != kOk) {
        *fault = bus->Explain(code, body_size);
        return nullptr;
    }
    Head head = Derive(inherit, static_cast<uint16_t>(FlowFunc::MsgType::MSG_TYPE_RAW_MSG));
    head.ret_code = inherit.ret_code;
    return std::make_shared<Message>(bus, block, head, body_size, members);
}

MessagePtr AllocEmpty(Bus *bus, const Head &inherit, View aux)
{
    Block block;
    const View members = MemberBytes(aux);
    if (bus->Alloc(kHeadSize + kDescSize + members.size, bus->alloc_limit(), &block) != kOk) {
        return nullptr;
    }
    WriteDesc(reinterpret_cast<Desc *>(block.data + kHeadSize), {0}, FlowFunc::TensorDataType::DT_FLOAT, 0);
    Head head = Derive(inherit, static_cast<uint16_t>(FlowFunc::MsgType::MSG_TYPE_TENSOR_DATA));
    head.data_flag |= kNull;
    return std::make_shared<Message>(bus, block, head, kDescSize, members);
}
}  // namespace dflow
