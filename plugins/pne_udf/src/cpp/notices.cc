#include "notices.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace dflow {
namespace {
constexpr char kKind[] = "\"kind\": \"dropped\"";

bool IsNotice(const Message &msg)
{
    const View aux = msg.aux();
    const uint8_t *const end = aux.data + aux.size;
    return msg.Is(kSkip) && std::search(aux.data, end, kKind, kKind + sizeof(kKind) - 1) != end;
}
}  // namespace

MessagePtr NoticeOf(Bus *bus, const Message &dropped)
{
    const View aux = dropped.aux();
    Head head = dropped.head();
    if (dropped.Is(kSkip | kEnd | kError)) {
        return std::make_shared<Message>(bus, head, Bytes(aux.data, aux.data + aux.size));
    }
    head.data_flag |= kSkip | kNull;
    ErrorInfo reason;
    reason.kind = "dropped";
    reason.message = "a queue dropped a message of it";
    return std::make_shared<Message>(bus, head, AuxWithError(aux, reason));
}

std::vector<MessagePtr> SplitNotice(Bus *bus, const MessagePtr &msg)
{
    const View aux = msg->aux();
    const uint32_t count = MemberCount(aux);
    std::vector<MessagePtr> parts{msg};
    if (count == 0 || !IsNotice(*msg)) {
        return parts;
    }
    const Bytes reason = AuxWithoutMembers(aux);
    for (uint32_t i = 0; i < count; i++) {
        Head head = MemberHead(aux, i);
        if (head.trans_id != msg->head().trans_id || head.data_label != msg->head().data_label) {
            head.data_flag |= kSkip | kNull;
            parts.push_back(std::make_shared<Message>(bus, head, reason));
        }
    }
    msg->ReplaceAux(reason);
    return parts;
}

NoticeSender::~NoticeSender()
{
    for (const Kept &kept : kept_) {
        bus_->Release(kept.block);
    }
}

void NoticeSender::Tell(uint32_t queue)
{
    const auto found = notices_.find(queue);
    if (found == notices_.end()) {
        return;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    Block block;
    while (bus_->TakeDropped(queue, &block)) {
        Message dropped(bus_, block);
        const MessagePtr notice = NoticeOf(bus_, dropped);
        Block made;
        if (notice->Seal(notice->head(), notice->aux(), false, 0, &made) != kOk && bus_->Retain(block) == kOk) {
            made = block; // there is no memory for a notice: the reader makes one of the message itself
        }
        if (made.data != nullptr) {
            kept_.push_back(Kept{found->second, made});
        }
    }
    FlushLocked();
}

void NoticeSender::Flush()
{
    if (!notices_.empty()) {
        const std::lock_guard<std::mutex> guard(lock_);
        FlushLocked();
    }
}

void NoticeSender::FlushLocked()
{
    while (!kept_.empty()) {
        const int code = bus_->Put(kept_.front().queue, kept_.front().block, 0);
        if (code == DFLOW_E_TIMEOUT) {
            return;
        }
        if (code != kOk) { // the graph ends
            bus_->Release(kept_.front().block);
        }
        kept_.pop_front();
    }
}
}  // namespace dflow
