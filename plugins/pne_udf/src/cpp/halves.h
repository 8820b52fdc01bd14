// Of which transactions a function with several queues has a message of one input, and can get no more of another.
//
// The rules of dflow_core/executor/streams/halves.py: what happens to the first message of a transaction decides about the
// others, and a function that has one part is told once that the others are lost.
#ifndef DFLOW_UDF_HALVES_H
#define DFLOW_UDF_HALVES_H

#include <list>
#include <map>
#include <vector>

#include "aligner.h"
#include "cancelled.h"

namespace dflow {
// What a message is; what becomes of it.
enum class Comes : uint8_t { kData, kSkip, kLost };
enum class Fate : uint8_t {
    kGive, // the function gets it
    kEnd,  // it ends its transaction without the function
    kDrop, // nothing: another message of its transaction decides, or has decided
    kTell, // as kEnd; and the function is to be told, for it has another part
};

class Halves {
public:
    explicit Halves(size_t ports) : ports_(ports) {}

    // A message was taken at an input.
    Fate Take(size_t port, const Message &msg, Comes comes);

    // Whether the function has a part of a transaction and may get another.
    bool Awaits(const PartKey &key) const;

    // Transactions that were cancelled while the function has a part of them and lacks that of an input; once each.
    std::vector<PartKey> Lose(size_t port, const Cancelled &cancelled);

    void Clear();

private:
    struct Part {
        std::vector<uint64_t> trans_ids;
        std::vector<bool> seen;
        bool is_given = false;
        bool is_lost = false;
        std::list<PartKey>::iterator place;
    };

    static constexpr size_t kLimit = 16384;

    void Forget(std::map<PartKey, Part>::iterator found);

    size_t ports_;
    std::map<PartKey, Part> parts_;
    std::list<PartKey> order_; // the oldest first
};
}  // namespace dflow

#endif  // DFLOW_UDF_HALVES_H
