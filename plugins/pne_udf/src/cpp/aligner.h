// Pairs the messages of several inputs by what they belong to, never by the order they arrive in.
//
// The rules are those of dflow_core/executor/pairing/aligner.py. On top of them, on request, limits: a set that stays incomplete
// for too long, or one too many of them, is given out as it is (upstream's alignment, runtime-semantics.md section 8).
#ifndef DFLOW_UDF_ALIGNER_H
#define DFLOW_UDF_ALIGNER_H

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "message.h"

namespace dflow {
using PartKey = std::pair<uint64_t, uint32_t>;

// One message of each port; in a partial set those that did not come are null.
using MessageSet = std::vector<MessagePtr>;

struct DeadPart {
    uint64_t trans_id = 0;
    uint32_t data_label = 0;
    std::vector<uint32_t> ports; // had arrived before
};

struct AlignLimits {
    uint32_t max_cache = 0;  // incomplete sets; 0 is no limit
    int64_t timeout_ns = -1; // age of an incomplete set; -1 is no limit
    bool is_dropping = false; // what is given up is dropped, and all there is of its transaction
};

// A bounded memory, the oldest forgotten first.
template <typename K>
class Recent {
public:
    void Add(const K &key)
    {
        if (!keys_.insert(key).second) {
            return;
        }
        order_.push_back(key);
        if (order_.size() > kLimit) {
            keys_.erase(order_.front());
            order_.pop_front();
        }
    }

    void Remove(const K &key)
    {
        keys_.erase(key);
    }

    bool Has(const K &key) const
    {
        return !keys_.empty() && keys_.count(key) != 0;
    }

private:
    static constexpr size_t kLimit = 16384;
    std::set<K> keys_;
    std::deque<K> order_;
};

class Aligner {
public:
    Aligner(Bus *bus, size_t ports, const std::vector<DeadPart> &dead, const AlignLimits &limits);

    // Take a message; appends the sets it completes, oldest first.
    void Offer(size_t port, MessagePtr msg, int64_t now, std::vector<MessageSet> *complete);

    // Whether a message is not to be dropped; where there is one port, all there is to do for it. Ask once only.
    bool IsWanted(size_t port, const Message &msg);

    // The set that has waited too long, or is one too many, lowest key first; false if there is none.
    bool TakeOverdue(int64_t now, MessageSet *partial);

    // When `TakeOverdue` has something at the latest, -1 if never.
    int64_t Deadline() const;

    // Drop what there is of a transaction and what is still to come; or stop doing that.
    void Poison(uint64_t trans_id);
    void Unpoison(uint64_t trans_id);

    // Put stand-ins in the place of messages that wait; `stand_in` gives the message itself where it is wanted.
    void LetGo(const std::function<MessagePtr(MessagePtr)> &stand_in);

    // Drop everything that waits.
    void Clear();

    // Keys that wait for a part.
    size_t pending() const
    {
        return waiting_.size() + held_.size();
    }

    // The port with the fewest messages that wait; the lowest of equals.
    size_t ShortestPort() const;

private:
    using Key = std::tuple<uint64_t, uint32_t, bool>;

    struct Slot {
        std::vector<std::deque<MessagePtr>> ports;
        int64_t since = 0;
    };

    struct Batch {
        std::map<size_t, MessagePtr> ports;
        int64_t since = 0;
    };

    using Part = std::pair<size_t, MessagePtr>;

    bool CanHold(const Message &msg) const;
    void Hold(size_t port, MessagePtr msg, int64_t now, std::vector<MessageSet> *complete);
    std::vector<Part> Split(const PartKey &head);
    Batch Forget(const PartKey &head);
    std::vector<MessagePtr> SplitMembers(const MessagePtr &msg) const;
    void Add(size_t port, MessagePtr msg, int64_t now, std::vector<MessageSet> *complete);
    MessageSet Mismatch(const Message &msg);
    void LetBatchesWaitAsMessages(int64_t oldest);
    bool IsFull() const
    {
        return limits_.max_cache != 0 && pending() > limits_.max_cache;
    }

    Bus *bus_;
    size_t ports_;
    AlignLimits limits_;
    std::map<Key, Slot> waiting_;
    std::map<PartKey, Batch> held_;
    std::map<PartKey, PartKey> batch_of_;
    std::map<PartKey, std::set<size_t>> dead_;
    std::vector<size_t> counts_;
    Recent<Key> done_;
    Recent<uint64_t> poisoned_;
    // What was put in for a message, or given up, stands for one that may still come.
    Recent<std::pair<Key, size_t>> replaced_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_ALIGNER_H
