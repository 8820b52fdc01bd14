// What becomes of what a call sends; the rules of dflow_core/executor/node/call_context.py.
//
// A call that sends one message to an output is 1:1 and its token passes on. One that sends several gives each a token
// and a label of its own and closes them with an END marker. One that sends nothing ends its input with a skip. One that
// fails takes back what it had not sent yet and ends its input with an error.
#ifndef DFLOW_UDF_CALL_H
#define DFLOW_UDF_CALL_H

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "failed_calls.h"
#include "halves.h"
#include "ledger.h"
#include "outputs.h"

namespace dflow {
// The function a call is of.
struct FuncInfo {
    std::string name;
    uint32_t index = 0; // in its node
    std::string node;
    int32_t instance = 0;
    std::vector<uint32_t> inputs;
    std::vector<uint32_t> outputs;
    std::vector<bool> is_shared; // for each output, whether other functions may send there too
    bool is_stream = false;
};

// The first code that is not good.
inline int First(int a, int b)
{
    return a != kOk ? a : b;
}

inline Head Flagged(Head head, uint8_t bits)
{
    head.data_flag |= bits;
    return head;
}

// An exception a function raised for the transaction in work.
struct Raised {
    bool is_set = false;
    int32_t code = 0;
    uint64_t user_context_id = 0;
};

// The calls of one function, one after the other. Any thread may send.
class Call {
public:
    Call(Bus *bus, Outputs *outputs, const FuncInfo *info);
    ~Call();

    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    // A call for a message, or for none.
    void Begin(const Message *head);

    // Take what the function sends to a node output (one of the function's); kOk or a code of the bus.
    int Send(uint32_t output, MessagePtr msg);

    // End the call: send what was held back, close what was streamed, end what got nothing. `kept`: messages of the call
    // that the function still has, to answer later.
    int Finish(std::vector<std::weak_ptr<Message>> kept);

    // End the call with an error instead.
    int Fail(const ErrorInfo &error, int32_t ret_code);

    // End a message as it is on every output: an error, a skip or the end of a stream.
    int PassOn(const Message &msg);

    // A message was taken from a queue outside of a call, a skip in its place if it was cancelled; what becomes of it.
    Fate Take(size_t port, const MessagePtr &msg, const Cancelled &cancelled);

    // The function wants a message of an input; true if it is to be told that one will not come, whose transaction it has
    // a part of.
    bool Lose(size_t port, const Cancelled &cancelled);

    // Whether it was told since the call began.
    bool has_lost() const
    {
        return has_lost_;
    }

    // End what the function has let go of without an answer.
    int Sweep();

    // End everything that is owed, without data or with an error; how many there were.
    int Settle();
    size_t FailDebts(const ErrorInfo &error, int32_t ret_code);

    // For recordings (failed_calls.cc): keep the block of a message from a queue while it is owed; those kept, in the
    // order they came; let go of those that are not owed any more, or of all.
    void Remember(size_t input, const Message &msg);
    std::vector<Given> Remembered();
    void LetGoTaken(bool all);

    // Forget everything, because the instance is suspended.
    void Reset();

    // References the outputs of the current call have to a message.
    long Holds(const Message *msg);

    // Whether there is an input to answer and some output of its own got nothing yet in this call.
    bool is_silent() const
    {
        return answered_.load(std::memory_order_relaxed) < outputs_.size();
    }

    // A copy of the head that messages inherit, and of the members; false if there was no input yet.
    bool Inherit(Head *head, Bytes *members);

    // Note an exception; false if there is no input, or one was raised for it already.
    bool Raise(int32_t code, uint64_t user_context_id);
    Raised TakeRaised();

    // Begin with a head that is not that of a message: the one an exception was raised for.
    void BeginException(const Head &head);

private:
    struct Output {
        std::vector<MessagePtr> held_back;
        bool is_stream = false;
        bool has_own = false;
        bool is_explicit = false; // the last message came with a transaction of its own
        uint64_t parts = 0;
        uint64_t token = 0;
        uint64_t count = 0;
        Ledger ledger;
    };

    uint64_t ImplicitTransaction(const Output &out) const;
    int PassOnLocked(const Message &msg);
    bool EndPart(const PartKey &key, const Head &head, View aux);
    int Owe(const MessagePtr &taken);
    int EmitOwn(size_t at, MessagePtr msg);
    int EmitPart(size_t at, MessagePtr msg);
    int EmitForeign(size_t at, MessagePtr msg);
    int EmitHeld(size_t at);
    int EmitEnd(size_t at);
    int EmitEnding(size_t at, const Head &head, View aux);
    int PayOldest(size_t at, bool all);
    int PayReleased(size_t at);
    size_t Local(uint32_t output) const;
    void ForgetRaised();
    void LetGoLocked(bool all);
    View members() const;

    Bus *bus_;
    Outputs *sink_;
    const FuncInfo *info_;
    std::mutex lock_;
    bool has_head_ = false;
    bool is_open_ = false;
    Head head_;
    Bytes members_;
    std::vector<Output> outputs_;
    std::vector<std::pair<uint32_t, Block>> taken_;

    // What can be asked without the lock: outputs that got a message of the call's own transaction; whether a ledger may
    // hold anything; whether `raised_` is set.
    std::atomic<size_t> answered_{0};
    std::atomic<bool> has_debts_{false};
    std::atomic<bool> has_raised_{false};
    Raised raised_;
    uint64_t last_raised_ = 0;
    Recent<std::pair<PartKey, bool>> passed_;
    Halves halves_;
    Recent<uint64_t> let_go_; // ended, while the function had a part of them
    std::atomic<bool> has_lost_{false};
};
}  // namespace dflow

#endif  // DFLOW_UDF_CALL_H
