#include "cancelled.h"

#include "dflow/transaction.h"

#include <algorithm>
#include <utility>

namespace dflow {
bool Cancelled::Has(uint64_t trans_id) const
{
    if (!is_any()) {
        return false;
    }
    const uint64_t high = std::min(Load(kHigh), kMostSlots);
    for (uint64_t slot = 0; slot < high; slot++) {
        if (Load(kSlots + slot) == trans_id) {
            return trans_id != 0;
        }
    }
    return false;
}

bool Cancelled::HasNews()
{
    if (words_ == nullptr) {
        return false;
    }
    const uint64_t epoch = Load(kEpoch);
    return std::exchange(swept_, epoch) != epoch && is_any();
}

bool Cancelled::HasAll(const Message &msg) const
{
    const View aux = msg.aux();
    bool has_all = Has(msg.head().trans_id);
    for (uint32_t i = 0; has_all && i < MemberCount(aux); i++) {
        has_all = Has(MemberHead(aux, i).trans_id);
    }
    return has_all;
}

MessagePtr Cancelled::StandIn(Bus *bus, MessagePtr msg, bool is_to_wait) const
{
    if (msg == nullptr || msg->Is(kSkip | kEnd | kError) || !HasAll(*msg)) {
        return msg;
    }
    Head head = msg->head();
    head.data_flag |= kSkip | kNull;
    const View aux = msg->aux();
    const View members = aux.size == 0 ? View() : MemberBytes(aux);
    const auto skip = std::make_shared<Message>(bus, head, Bytes(members.data, members.data + members.size));
    Block block;
    if (is_to_wait && skip->Seal(skip->head(), skip->aux(), false, 0, &block) == kOk) {
        return std::make_shared<Message>(bus, block);
    }
    return skip;
}

bool IsCancelled(const std::shared_ptr<FlowFunc::FlowMsg> &msg)
{
    const auto *const mine = dynamic_cast<const Message *>(msg.get());
    const uint64_t *const board = mine == nullptr ? nullptr : mine->bus()->board();
    return board != nullptr && Cancelled(board).HasAll(*mine);
}
}  // namespace dflow
