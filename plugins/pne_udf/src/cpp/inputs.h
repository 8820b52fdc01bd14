// The inputs of one function: messages out of queues, put together into sets.
#ifndef DFLOW_UDF_INPUTS_H
#define DFLOW_UDF_INPUTS_H

#include <deque>
#include <vector>

#include "aligner.h"
#include "cancelled.h"
#include "notices.h"

namespace dflow {
class Inputs {
public:
    // `queues`: one for each input of the function; `notices` of those that may drop messages. What was cancelled comes
    // as a skip.
    Inputs(Bus *bus, const std::vector<uint32_t> &queues, const NoticeMap &notices, const std::vector<DeadPart> &dead,
           const AlignLimits &limits, const Cancelled &cancelled);

    enum class Take { kSet, kPartial, kMissing, kEnded, kFailed };

    // The next set; a partial one has gaps. Never waits.
    Take Next(int64_t now, MessageSet *set);

    // Where there is one input: wait for a message in its queue, which is quicker than to wait for queues. False where
    // there are more.
    bool WaitForOne(int64_t wait_ns);

    // Whether `Next` looks at the time.
    bool needs_time() const
    {
        return ports_ > 1;
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
    // A queue of a port; notices are read before what the queue has itself.
    struct Source {
        uint32_t queue;
        size_t port;
        bool is_lossy;
        bool is_notices;
        bool is_open;
    };

    bool TakeOnly(MessageSet *set);
    bool Read(Source *source, int64_t now, int64_t wait_ns);
    bool Note(Source *source, int code);
    void Offer(size_t port, MessagePtr msg, int64_t now);
    void TakeReady(MessageSet *set);
    void LetGo();

    Bus *bus_;
    std::vector<Source> sources_;
    size_t ports_;
    size_t open_;
    Aligner aligner_;
    Cancelled cancelled_;
    std::deque<MessageSet> ready_;
    std::vector<MessageSet> fresh_;
    int fault_ = kOk;
};
}  // namespace dflow

#endif  // DFLOW_UDF_INPUTS_H
