#include "ledger.h"

#include <algorithm>
#include <utility>

namespace dflow {
void Ledger::Owe(const Head &head, View members, std::vector<std::weak_ptr<Message>> kept)
{
    const PartKey key{head.trans_id, head.data_label};
    if (known_.Has(key)) {
        const auto found = debts_.find(key);
        if (found != debts_.end()) {
            found->second.kept.insert(found->second.kept.end(), kept.begin(), kept.end());
        }
        return;
    }
    known_.Add(key);
    members = MemberBytes(members);
    debts_[key] = Debt{head, Bytes(members.data, members.data + members.size), std::move(kept)};
    order_.push_back(key);
}

uint64_t Ledger::Oldest() const
{
    return order_.empty() ? 0 : order_.front().first;
}

bool Ledger::Take(uint64_t trans_id, Debt *debt)
{
    const auto found = debts_.lower_bound({trans_id, 0});
    return found != debts_.end() && found->first.first == trans_id && TakePart(found->first, debt);
}

bool Ledger::TakePart(const PartKey &key, Debt *debt)
{
    const auto found = debts_.find(key);
    if (found == debts_.end()) {
        return false;
    }
    *debt = std::move(found->second);
    debts_.erase(found);
    Trim();
    return true;
}

// The first in order is always one that is there.
void Ledger::Trim()
{
    while (!order_.empty() && debts_.count(order_.front()) == 0) {
        order_.pop_front();
    }
}

void Ledger::Forget(uint64_t trans_id)
{
    Debt debt;
    while (Take(trans_id, &debt)) {
    }
}

bool Ledger::TakeReleased(const std::function<bool(const PartKey &)> &awaits, Debt *debt)
{
    for (auto at = debts_.begin(); at != debts_.end(); ++at) {
        const auto &kept = at->second.kept;
        const auto is_gone = [](const std::weak_ptr<Message> &msg) { return msg.expired(); };
        if (!kept.empty() && std::all_of(kept.begin(), kept.end(), is_gone) && !awaits(at->first)) {
            return TakePart(at->first, debt);
        }
    }
    return false;
}

bool Ledger::TakeOldest(bool all, Debt *debt)
{
    while (!order_.empty() && (all || debts_.size() > kLimit)) {
        const auto found = debts_.find(order_.front());
        order_.pop_front();
        if (found != debts_.end()) {
            *debt = std::move(found->second);
            debts_.erase(found);
            Trim();
            return true;
        }
    }
    return false;
}
}  // namespace dflow
