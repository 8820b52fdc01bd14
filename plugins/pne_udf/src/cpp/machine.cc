#include "machine.h"

#include <array>

namespace dflow {
namespace {
using S = State;
using E = Event;
using T = Then;

constexpr Rule kRules[] = {
    {S::kInit, E::kCreated, S::kInitFlowFunc, T::kAgain},
    {S::kInit, E::kCreateFailed, S::kProcError, T::kStop},
    {S::kInit, E::kRound, S::kInit, T::kAgain},

    {S::kInitFlowFunc, E::kInitOk, S::kReady, T::kAgain},
    {S::kInitFlowFunc, E::kInitAgain, S::kInitFlowFunc, T::kAgain},
    {S::kInitFlowFunc, E::kInitFailed, S::kProcError, T::kStop},
    {S::kInitFlowFunc, E::kCreateFailed, S::kProcError, T::kStop},
    {S::kInitFlowFunc, E::kRound, S::kInitFlowFunc, T::kAgain},

    {S::kReady, E::kRound, S::kPrepareInputData, T::kGoOn},
    {S::kReady, E::kSuspend, S::kSuspend, T::kIdle},

    {S::kPrepareInputData, E::kRound, S::kPrepareInputData, T::kGoOn},
    {S::kPrepareInputData, E::kInputsReady, S::kCallFlowFunc, T::kGoOn},
    {S::kPrepareInputData, E::kInputsMissing, S::kPrepareInputData, T::kWaitInput},
    {S::kPrepareInputData, E::kException, S::kCallFlowFuncProcExp, T::kGoOn},
    {S::kPrepareInputData, E::kExceptionInStream, S::kProcError, T::kStop},
    {S::kPrepareInputData, E::kReadFailed, S::kProcError, T::kStop},
    {S::kPrepareInputData, E::kSuspend, S::kSuspend, T::kIdle},

    {S::kCallFlowFunc, E::kRound, S::kCallFlowFunc, T::kGoOn},
    {S::kCallFlowFunc, E::kCallOk, S::kRepublishOutputData, T::kGoOn},
    {S::kCallFlowFunc, E::kCallPending, S::kCallFlowFunc, T::kIdle},
    {S::kCallFlowFunc, E::kCallFailed, S::kProcError, T::kStop},
    {S::kCallFlowFunc, E::kSuspend, S::kSuspend, T::kIdle},

    {S::kRepublishOutputData, E::kRound, S::kRepublishOutputData, T::kGoOn},
    {S::kRepublishOutputData, E::kPublished, S::kScheduleFinish, T::kGoOn},
    {S::kRepublishOutputData, E::kNotPublished, S::kRepublishOutputData, T::kWaitRoom},
    {S::kRepublishOutputData, E::kPublishFailed, S::kProcError, T::kStop},
    {S::kRepublishOutputData, E::kSuspend, S::kSuspend, T::kIdle},

    {S::kScheduleFinish, E::kRound, S::kScheduleFinish, T::kGoOn},
    {S::kScheduleFinish, E::kFinished, S::kReady, T::kAgain},
    {S::kScheduleFinish, E::kSuspend, S::kSuspend, T::kIdle},

    {S::kSuspend, E::kRound, S::kSuspend, T::kIdle},
    {S::kSuspend, E::kSuspend, S::kSuspend, T::kIdle},
    {S::kSuspend, E::kRecoverKept, S::kReady, T::kAgain},
    {S::kSuspend, E::kRecoverRemade, S::kInitFlowFunc, T::kAgain},

    {S::kProcError, E::kRound, S::kProcError, T::kStop},

    {S::kCallFlowFuncProcExp, E::kRound, S::kCallFlowFuncProcExp, T::kGoOn},
    {S::kCallFlowFuncProcExp, E::kCallOk, S::kRepublishOutputData, T::kGoOn},
    {S::kCallFlowFuncProcExp, E::kCallPending, S::kCallFlowFuncProcExp, T::kIdle},
    {S::kCallFlowFuncProcExp, E::kCallFailed, S::kProcError, T::kStop},
    {S::kCallFlowFuncProcExp, E::kSuspend, S::kSuspend, T::kIdle},
};

struct Cell {
    State to = State::kInit;
    Then then = Then::kNever;
};

using Table = std::array<std::array<Cell, kEvents>, kStates>;

constexpr Table MakeTable()
{
    Table table{};
    for (const Rule &rule : kRules) {
        table[static_cast<size_t>(rule.from)][static_cast<size_t>(rule.event)] = Cell{rule.to, rule.then};
    }
    return table;
}

constexpr Table kTable = MakeTable();

constexpr const char *kStateNames[kStates] = {
    "Init", "InitFlowFunc", "Ready", "PrepareInputData", "CallFlowFunc", "RepublishOutputData", "ScheduleFinish",
    "Suspend", "ProcError", "CallFlowFuncProcExp",
};

constexpr const char *kEventNames[kEvents] = {
    "Created", "CreateFailed", "InitOk", "InitAgain", "InitFailed", "Round", "InputsReady", "InputsMissing",
    "Exception", "ExceptionInStream", "ReadFailed", "CallOk", "CallPending", "CallFailed", "Published",
    "NotPublished", "PublishFailed", "Finished", "Suspend", "RecoverKept", "RecoverRemade",
};

constexpr const char *kThenNames[] = {"Never", "GoOn", "Again", "WaitInput", "WaitRoom", "Idle", "Stop"};
}  // namespace

const Rule *Rules(size_t *count)
{
    *count = sizeof(kRules) / sizeof(kRules[0]);
    return kRules;
}

const char *Name(State state)
{
    return kStateNames[static_cast<size_t>(state)];
}

const char *Name(Event event)
{
    return kEventNames[static_cast<size_t>(event)];
}

const char *Name(Then then)
{
    return kThenNames[static_cast<size_t>(then)];
}

Then Machine::On(Event event)
{
    const Cell &cell = kTable[static_cast<size_t>(state_)][static_cast<size_t>(event)];
    if (cell.then == Then::kNever) {
        return Then::kNever;
    }
    state_ = cell.to;
    then_ = cell.then;
    return then_;
}
}  // namespace dflow
