#include "failed_calls.h"

#include <algorithm>
#include <cstring>

#include "call.h"

namespace dflow {
namespace {
constexpr char kMagic[] = "dflowfc1";
constexpr uint16_t kRawMessage = 1;

template <typename T>
void Append(Bytes *bytes, const T &value)
{
    const auto *const from = reinterpret_cast<const uint8_t *>(&value);
    bytes->insert(bytes->end(), from, from + sizeof(value));
}

uint64_t SizeOf(const Given &one)
{
    return kHeadSize + one.body.size + one.aux.size;
}

uint8_t *Copy(uint8_t *to, const void *from, uint64_t size)
{
    if (size != 0) {
        memcpy(to, from, size);
    }
    return to + size;
}

uint8_t *CopyMessage(uint8_t *to, const Given &one)
{
    Head head = one.head;
    head.body_size = one.body.size;
    head.aux_size = static_cast<uint32_t>(one.aux.size);
    to = Copy(to, &head, sizeof(head));
    to = Copy(to, one.body.data, one.body.size);
    return Copy(to, one.aux.data, one.aux.size);
}
}  // namespace

void FailedCalls::Tell(uint32_t function, bool is_stream, const std::vector<Given> &given, const ErrorInfo &error) const
{
    if (!is_wanted_) {
        return;
    }
    const Bytes aux = AuxWithError(View{}, error);
    Bytes start(kMagic, kMagic + sizeof(kMagic) - 1);
    for (const uint32_t word : {function, static_cast<uint32_t>(given.size()), is_stream ? 1U : 0U, 0U}) {
        Append(&start, word);
    }
    for (const Given &one : given) {
        Append(&start, one.input);
    }
    start.resize((start.size() + 7) / 8 * 8, 0);
    Append(&start, static_cast<uint64_t>(aux.size()));
    uint64_t size = aux.size();
    for (const Given &one : given) {
        Append(&start, SizeOf(one));
        size += SizeOf(one);
    }
    Head head{};
    head.msg_type = kRawMessage;
    head.body_size = start.size() + size;
    Block block;
    if (bus_->Alloc(kHeadSize + head.body_size, 0, &block) != kOk) {
        return;
    }
    uint8_t *at = Copy(block.data, &head, sizeof(head));
    at = Copy(at, start.data(), start.size());
    at = Copy(at, aux.data(), aux.size());
    for (const Given &one : given) {
        at = CopyMessage(at, one);
    }
    if (bus_->Put(queue_, block, 0) != kOk) {
        bus_->Release(block);
    }
}

std::vector<Given> GivenOf(const std::vector<MessagePtr> &set)
{
    std::vector<Given> given;
    for (const MessagePtr &msg : set) {
        given.push_back(Given{static_cast<uint32_t>(given.size()), msg->came(), msg->body(), msg->aux()});
    }
    return given;
}

Call::~Call()
{
    LetGoTaken(true);
}

void Call::Remember(size_t input, const Message &msg)
{
    const std::lock_guard<std::mutex> guard(lock_);
    LetGoLocked(false);
    if (msg.block().data != nullptr && bus_->Retain(msg.block()) == kOk) {
        taken_.emplace_back(static_cast<uint32_t>(input), msg.block());
    }
}

std::vector<Given> Call::Remembered()
{
    const std::lock_guard<std::mutex> guard(lock_);
    LetGoLocked(false);
    std::vector<Given> given;
    for (const auto &[input, block] : taken_) {
        given.push_back(GivenIn(input, block));
    }
    return given;
}

void Call::LetGoTaken(bool all)
{
    const std::lock_guard<std::mutex> guard(lock_);
    LetGoLocked(all);
}

void Call::LetGoLocked(bool all)
{
    const auto is_let_go = [&](const std::pair<uint32_t, Block> &one) {
        const Head head = GivenIn(one.first, one.second).head;
        const bool is_owed = std::any_of(outputs_.begin(), outputs_.end(), [&](const Output &out) {
            return out.ledger.Owes({head.trans_id, head.data_label});
        });
        if (all || !is_owed) {
            bus_->Release(one.second);
        }
        return all || !is_owed;
    };
    taken_.erase(std::remove_if(taken_.begin(), taken_.end(), is_let_go), taken_.end());
}

Given GivenIn(uint32_t input, const Block &block)
{
    Given found{input, {}, {}, {}};
    memcpy(&found.head, block.data, sizeof(found.head));
    found.body = View{block.data + kHeadSize, found.head.body_size};
    found.aux = View{block.data + kHeadSize + found.head.body_size, found.head.aux_size};
    return found;
}
}  // namespace dflow
