// The inputs of one function: messages out of queues, put together into sets.
#ifndef DFLOW_UDF_INPUTS_H
#define DFLOW_UDF_INPUTS_H

#include <deque>
#include <vector>

#include "aligner.h"

namespace dflow {
class Inputs {
public:
    // `queues`: one for each input of the function.
    Inputs(Bus *bus, std::vector<uint32_t> queues, const std::vector<DeadPart> &dead, const AlignLimits &limits);

    enum class Take { kSet, kPartial, kMissing, kEnded, kFailed };

    // The next set; a partial one has gaps. Never waits.
    Take Next(int64_t now, MessageSet *set);

    // Where there is one input: wait for a message in its queue, which is quicker than to wait for queues. False where
    // there are more.
    bool WaitForOne(int64_t wait_ns);

    // Whether `Next` looks at the time.
    bool needs_time() const
    {
        return queues_.size() > 1;
    }

    // Whether nothing can come any more.
    bool IsEnded() const;

    // Queues to wait for.
    void AppendOpen(std::vector<uint32_t> *queues) const;

    // When a set is overdue, -1 if never.
    int64_t Deadline() const
    {
        return aligner_.Deadline();
    }

    size_t pending() const
    {
        return aligner_.pending();
    }

    // Drop what is in hand and what lies in the queues.
    void Discard();

    // Drop a transaction, or stop doing that.
    void Poison(uint64_t trans_id)
    {
        aligner_.Poison(trans_id);
    }

    void Unpoison(uint64_t trans_id)
    {
        aligner_.Unpoison(trans_id);
    }

    int fault() const
    {
        return fault_;
    }

private:
    bool ReadEach(int64_t now);
    bool Read(size_t port, int64_t now, int64_t wait_ns);

    Bus *bus_;
    std::vector<uint32_t> queues_;
    std::vector<bool> is_open_;
    size_t open_;
    Aligner aligner_;
    std::deque<MessageSet> ready_;
    std::vector<MessageSet> fresh_;
    int fault_ = kOk;
};
}  // namespace dflow

#endif  // DFLOW_UDF_INPUTS_H
