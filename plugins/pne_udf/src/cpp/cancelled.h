// Which transactions were cancelled: the board of dflow_core/executor/cancel_board.py, for one who reads it.
#ifndef DFLOW_UDF_CANCELLED_H
#define DFLOW_UDF_CANCELLED_H

#include <cstdint>

#include "message.h"

namespace dflow {
// As long as nothing is cancelled, asking costs one load.
class Cancelled {
public:
    // `words`: as in dflow_udf_config; null for a board that is always empty.
    explicit Cancelled(const uint64_t *words) : words_(words) {}

    bool is_any() const
    {
        return words_ != nullptr && Load(kLive) != 0;
    }

    bool Has(uint64_t trans_id) const;

    // The same of all that is in a message: a batch goes on as long as one of its members is wanted.
    bool HasAll(const Message &msg) const;

    // Whether something was cancelled since the last call of this.
    bool HasNews();

    // A skip in the place of a message with data that nobody wants any more, with its key and token; any other message as
    // it is. `is_to_wait`: it may lie here for long, so it is put into a block, which outlives this process.
    MessagePtr StandIn(Bus *bus, MessagePtr msg, bool is_to_wait) const;

private:
    static constexpr uint64_t kLive = 0;
    static constexpr uint64_t kEpoch = 1;
    static constexpr uint64_t kHigh = 2;
    static constexpr uint64_t kSlots = 8;
    static constexpr uint64_t kMostSlots = 504;

    uint64_t Load(uint64_t word) const
    {
        return __atomic_load_n(words_ + word, __ATOMIC_RELAXED);
    }

    const uint64_t *words_;
    uint64_t swept_ = 0;
};
}  // namespace dflow

#endif  // DFLOW_UDF_CANCELLED_H
