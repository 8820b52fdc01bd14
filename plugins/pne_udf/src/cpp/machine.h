// The states of a processor as a table, without I/O: what may follow what, and what to do then.
//
// A processor is the part of an instance that runs one function. In a round it takes inputs, calls the function,
// publishes what that sent, and is ready for the next round. The table in machine.cc is the whole truth; the processor
// only does what it says and reports what came of it (runtime-semantics.md section 9.3).
#ifndef DFLOW_UDF_MACHINE_H
#define DFLOW_UDF_MACHINE_H

#include <cstddef>
#include <cstdint>

namespace dflow {
// The numbers are those of the specification.
enum class State : uint8_t {
    kInit = 0,
    kInitFlowFunc = 1,
    kReady = 2,
    kPrepareInputData = 3,
    kCallFlowFunc = 4,
    kRepublishOutputData = 5,
    kScheduleFinish = 6,
    kSuspend = 7,
    kProcError = 8,
    kCallFlowFuncProcExp = 9,
};
constexpr size_t kStates = 10;

enum class Event : uint8_t {
    kCreated,           // the function was made
    kCreateFailed,
    kInitOk,
    kInitAgain,         // Init asks to be called once more
    kInitFailed,
    kRound,             // it is the processor's turn
    kInputsReady,       // one message of each input, or the function needs none
    kInputsMissing,
    kException,         // another function's exception waits, the function takes messages
    kExceptionInStream, // the same, but it takes queues
    kReadFailed,
    kCallOk,            // also: it failed and its transaction was ended with an error
    kCallPending,       // it wants to stay in the call
    kCallFailed,        // it failed and nothing can go on
    kPublished,         // nothing waits for room any more
    kNotPublished,
    kPublishFailed,
    kFinished,          // the round is over
    kSuspend,
    kRecoverKept,       // go on with the same function
    kRecoverRemade,     // go on with a new one
};
constexpr size_t kEvents = 21;

// What to do after an event.
enum class Then : uint8_t {
    kNever,     // the event cannot happen in this state
    kGoOn,      // act on the new state at once
    kAgain,     // give up the turn and ask for another
    kWaitInput, // until a message arrives
    kWaitRoom,  // until an output has room
    kIdle,      // until something else happens
    kStop,      // the instance ends with an error
};

struct Rule {
    State from;
    Event event;
    State to;
    Then then;
};

// All rules, in the order of the states.
const Rule *Rules(size_t *count);

// Names, for error texts and tests.
const char *Name(State state);
const char *Name(Event event);
const char *Name(Then then);

class Machine {
public:
    State state() const
    {
        return state_;
    }

    // What the last event asked for.
    Then then() const
    {
        return then_;
    }

    // Take an event. One that cannot happen here changes nothing and gives kNever.
    Then On(Event event);

private:
    State state_ = State::kInit;
    Then then_ = Then::kIdle;
};
}  // namespace dflow

#endif  // DFLOW_UDF_MACHINE_H
