// Runs one function: does what the machine says, with queues and user code.
#ifndef DFLOW_UDF_PROCESSOR_H
#define DFLOW_UDF_PROCESSOR_H

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "functions.h"
#include "inputs.h"
#include "machine.h"
#include "stream_queue.h"

namespace dflow {
// Why an instance cannot go on.
struct Failure {
    bool is_set = false;
    bool is_node = false; // a call failed, and the node's on_error is stop
    int32_t code = 0;
    uint64_t trans_id = 0;
    std::string error_type;
    std::string message;
};

// An exception as it goes from function to function.
struct ExceptionNote {
    int32_t code = 0;
    bool is_expired = false;
    uint64_t trans_id = 0;
    uint64_t user_context_id = 0;
    Head head;
};

// Counters anybody may read while the processor works.
struct Counters {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> failed{0};
    std::atomic<uint64_t> busy_ns{0};
    std::atomic<uint64_t> current_trans{0};
    std::atomic<int64_t> current_since{0};
    std::atomic<uint32_t> state{0};
    std::atomic<uint32_t> pending{0};
};

// One thread at a time calls its methods, except those that say otherwise.
class Processor {
public:
    // `queues`: that of each of the function's inputs, in order.
    Processor(Node *node, FuncInfo info, std::vector<uint32_t> queues, const std::vector<DeadPart> &dead);

    // Make the function; false with a reason.
    bool Create(Functions *functions, std::string *fault);

    // Call Init once; false if it failed, with `failure`. Asks for another time by staying in InitFlowFunc.
    bool Init(Functions *functions, Failure *failure);

    // One round. Afterwards `machine().then()` says what it waits for.
    void Round();

    // Wait for a message if that is all it waits for, and from one queue; false if not.
    bool WaitForOne(int64_t wait_ns)
    {
        return machine_.then() == Then::kWaitInput && inputs_.WaitForOne(wait_ns);
    }

    // What it waits for: queues to read, queues to write, a time (-1 none; 0 at once).
    void AppendWaits(std::vector<uint32_t> *readable, std::vector<uint32_t> *writable, int64_t *deadline);

    // Whether its inputs have ended and everything is sent; it has then ended what it owed.
    bool is_done() const
    {
        return is_done_;
    }

    // Whether an output queue was closed, so that the instance is to leave.
    bool is_cut_off() const
    {
        return is_cut_off_;
    }

    // After a suspension: whether the function is the same one, or must be initialised again.
    void Recover(bool is_kept);

    // Any thread: an exception of another function; one that this function raised.
    void Notify(const ExceptionNote &note);
    bool TakeRaised(ExceptionNote *note);

    const Machine &machine() const
    {
        return machine_;
    }

    const FuncInfo &info() const
    {
        return info_;
    }

    const Failure &failure() const
    {
        return failure_;
    }

    Counters &counters()
    {
        return counters_;
    }

    Callee *callee()
    {
        return &callee_;
    }

private:
    Event Act();
    Event Prepare();
    Event CallFunction();
    Event CallStream();
    Event CallException();
    Event Publish();
    Event Suspend();
    Event TakeExceptions();
    Event Check(int code);
    Event PassOn();
    Event EndCall(const Outcome &outcome, int64_t began, uint64_t blocked);
    Event EndStreamCall(const Outcome &outcome);
    Event FailCall(const ErrorInfo &error, int32_t code);
    Event EndRaised(const Raised &raised);
    bool FillGaps();
    void NoteRaised(const Raised &raised);
    Outcome Invoke(const std::vector<FlowMsgPtr> &inputs);
    Outcome InvokeChecked();
    std::vector<uint64_t> Sums() const;
    ErrorInfo Explain(const Outcome &outcome) const;
    std::vector<std::weak_ptr<Message>> Kept();
    bool IsStreamEnded() const;
    bool LetStreamsPass();

    Node *node_;
    FuncInfo info_;
    Call call_;
    Inputs inputs_;
    std::shared_ptr<FlowFunc::MetaRunContext> context_;
    std::shared_ptr<RunContext> run_;
    Machine machine_;
    Callee callee_;
    MessageSet set_;
    std::vector<FlowMsgPtr> arguments_;
    std::vector<std::shared_ptr<StreamQueue>> streams_;
    std::vector<std::shared_ptr<FlowFunc::FlowMsgQueue>> stream_arguments_;
    bool is_done_ = false;
    bool is_ending_ = false;
    bool is_cut_off_ = false;
    Failure failure_;
    Counters counters_;
    ExceptionNote exception_;
    std::mutex notes_lock_;
    std::atomic<bool> has_notes_{false};
    std::deque<ExceptionNote> notes_;
    std::deque<ExceptionNote> raised_;
    Recent<uint64_t> own_; // it has raised these itself, and is not told of them
};
}  // namespace dflow

#endif  // DFLOW_UDF_PROCESSOR_H
