#include "halves.h"

#include <algorithm>
#include <utility>

namespace dflow {
namespace {
std::vector<uint64_t> TransactionsOf(const Message &msg)
{
    std::vector<uint64_t> found{msg.head().trans_id};
    const View aux = msg.aux();
    for (uint32_t i = 0; i < MemberCount(aux); i++) {
        found.push_back(MemberHead(aux, i).trans_id);
    }
    return found;
}
}  // namespace

Fate Halves::Take(size_t port, const Message &msg, Comes comes)
{
    if (ports_ == 1) {
        return comes == Comes::kData ? Fate::kGive : Fate::kEnd;
    }
    auto found = parts_.find(msg.key());
    if (found != parts_.end() && found->second.seen[port]) {
        Forget(found);
        found = parts_.end();
    }
    if (found == parts_.end()) {
        found = parts_.emplace(msg.key(), Part()).first;
        found->second.trans_ids = TransactionsOf(msg);
        found->second.seen.resize(ports_);
        found->second.place = order_.insert(order_.end(), msg.key());
    }
    Part &part = found->second;
    part.seen[port] = true;
    const bool is_whole = std::all_of(part.seen.begin(), part.seen.end(), [](bool seen) { return seen; });
    const bool was_lost = std::exchange(part.is_lost, part.is_lost || comes == Comes::kLost);
    const bool was_given = std::exchange(part.is_given, part.is_given || (comes == Comes::kData && !was_lost));
    if (is_whole) {
        Forget(found);
    } else if (parts_.size() > kLimit) {
        Forget(parts_.find(order_.front()));
    }
    if (was_lost) {
        return Fate::kDrop;
    }
    if (comes == Comes::kLost) {
        return was_given ? Fate::kTell : Fate::kEnd;
    }
    return comes == Comes::kData ? Fate::kGive : is_whole && !was_given ? Fate::kEnd : Fate::kDrop;
}

bool Halves::Awaits(const PartKey &key) const
{
    const auto found = parts_.find(key);
    return found != parts_.end() && found->second.is_given && !found->second.is_lost;
}

std::vector<PartKey> Halves::Lose(size_t port, const Cancelled &cancelled)
{
    std::vector<PartKey> lost;
    for (const PartKey &key : order_) {
        Part &part = parts_.at(key);
        const auto is_cancelled = [&cancelled](uint64_t trans_id) { return cancelled.Has(trans_id); };
        if (part.is_given && !part.is_lost && !part.seen[port] &&
            std::all_of(part.trans_ids.begin(), part.trans_ids.end(), is_cancelled)) {
            part.is_lost = true;
            lost.push_back(key);
        }
    }
    return lost;
}

void Halves::Clear()
{
    parts_.clear();
    order_.clear();
}

void Halves::Forget(std::map<PartKey, Part>::iterator found)
{
    order_.erase(found->second.place);
    parts_.erase(found);
}
}  // namespace dflow
