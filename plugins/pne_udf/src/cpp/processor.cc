#include "processor.h"

#include <algorithm>
#include <utility>

#include "crash.h"
#include "log.h"

namespace dflow {
Processor::Processor(Node *node, FuncInfo info, std::vector<uint32_t> queues, const std::vector<DeadPart> &dead)
    : node_(node),
      info_(std::move(info)),
      call_(node->bus, node->outputs, &info_),
      inputs_(node->bus, queues, node->notices, dead, node->limits, node->cancelled),
      run_(std::make_shared<RunContext>(node, &info_, &call_))
{
    context_ = run_;
    for (size_t port = 0; port < queues.size(); port++) {
        streams_.push_back(std::make_shared<StreamQueue>(node, &info_, &call_, port, queues[port]));
        stream_arguments_.push_back(streams_.back());
    }
}

bool Processor::Create(Functions *functions, std::string *fault)
{
    bool is_made = functions->Make(info_.name, &callee_, fault);
    if (is_made && info_.is_stream && callee_.queue == nullptr) {
        *fault = "function " + info_.name + " is set to take queues (stream_input) but is registered with messages";
        is_made = false;
    }
    if (is_made && !info_.is_stream && callee_.single == nullptr && callee_.plain == nullptr) {
        *fault = "function " + info_.name + " is registered with queues; set stream_input for it";
        is_made = false;
    }
    if (machine_.state() == State::kInit) {
        machine_.On(is_made ? Event::kCreated : Event::kCreateFailed);
    } else if (!is_made) {
        machine_.On(Event::kCreateFailed);
    }
    return is_made;
}

bool Processor::Init(Functions *functions, Failure *failure)
{
    const Outcome outcome = functions->Init(&callee_, run_);
    if (!outcome.is_exception() && outcome.code == kInitAgain) {
        machine_.On(Event::kInitAgain);
        return true;
    }
    if (outcome.code == 0 && !outcome.is_exception()) {
        machine_.On(Event::kInitOk);
        return true;
    }
    machine_.On(Event::kInitFailed);
    failure->is_set = true;
    failure->code = outcome.code;
    failure->error_type = outcome.error_type;
    failure->message = outcome.is_exception()
                           ? "Init of function " + info_.name + " threw " + outcome.error_type + ": " + outcome.message
                           : "Init of function " + info_.name + " returned " + std::to_string(outcome.code);
    return false;
}

void Processor::Round()
{
    Then then = machine_.On(Event::kRound);
    while (then == Then::kGoOn) {
        const Event event = Act();
        if (event == Event::kRound) { // the instance is ending: nothing more to do in this state
            break;
        }
        then = machine_.On(event);
    }
    if (machine_.state() == State::kSuspend) {
        inputs_.Discard();
    }
    counters_.state.store(static_cast<uint32_t>(machine_.state()), std::memory_order_relaxed);
}

Event Processor::Act()
{
    if (node_->is_suspended.load(std::memory_order_relaxed)) {
        return Suspend();
    }
    switch (machine_.state()) {
        case State::kPrepareInputData:
            return Prepare();
        case State::kCallFlowFunc:
            return CallFunction();
        case State::kCallFlowFuncProcExp:
            return CallException();
        case State::kRepublishOutputData:
            return Publish();
        default:
            return Event::kFinished;
    }
}

Event Processor::Suspend()
{
    set_.clear();
    arguments_.clear();
    inputs_.Discard();
    for (const auto &stream : streams_) {
        stream->Discard();
    }
    call_.Reset();
    call_.LetGoTaken(true);
    node_->outputs->Drop();
    counters_.current_since.store(0, std::memory_order_relaxed);
    return Event::kSuspend;
}

void Processor::Recover(bool is_kept)
{
    inputs_.Discard();
    machine_.On(is_kept ? Event::kRecoverKept : Event::kRecoverRemade);
    counters_.state.store(static_cast<uint32_t>(machine_.state()), std::memory_order_relaxed);
}

Event Processor::Prepare()
{
    if (has_notes_.load(std::memory_order_relaxed)) {
        const Event event = TakeExceptions();
        if (event != Event::kInputsMissing) {
            return event;
        }
    }
    if (info_.is_stream || info_.inputs.empty()) {
        is_ending_ = info_.is_stream && IsStreamEnded();
        return Event::kInputsReady;
    }
    const int code = call_.Sweep();
    if (code != kOk) {
        return Check(code);
    }
    switch (inputs_.Next(inputs_.needs_time() ? Now() : 0, &set_)) {
        case Inputs::Take::kSet:
        case Inputs::Take::kPartial:
            return Event::kInputsReady;
        case Inputs::Take::kEnded:
            is_ending_ = true;
            return Event::kInputsReady;
        case Inputs::Take::kFailed:
            failure_ = Failure{true, false, inputs_.fault(), 0, "", node_->bus->Explain(inputs_.fault(), 0)};
            return Event::kReadFailed;
        default:
            counters_.pending.store(static_cast<uint32_t>(inputs_.pending()), std::memory_order_relaxed);
            return Event::kInputsMissing;
    }
}

// What a code of the bus means for the machine.
Event Processor::Check(int code)
{
    if (code == kOk) {
        return Event::kPublished;
    }
    if (code == DFLOW_E_TIMEOUT) {
        return Event::kNotPublished;
    }
    if (code == DFLOW_E_CLOSED || code == DFLOW_E_GROUP_CLOSED) {
        is_cut_off_ = true;
        return Event::kRound;
    }
    failure_ = Failure{true, false, code, 0, "", "a message could not be sent: " + node_->bus->Explain(code, 0)};
    return Event::kPublishFailed;
}

Event Processor::Publish()
{
    for (const uint32_t output : info_.outputs) {
        const int code = node_->outputs->Flush(output);
        if (code != kOk) {
            return Check(code);
        }
    }
    is_done_ = is_ending_;
    return Event::kPublished;
}

void Processor::AppendWaits(std::vector<uint32_t> *readable, std::vector<uint32_t> *writable, int64_t *deadline)
{
    if (machine_.then() == Then::kWaitInput) {
        inputs_.AppendOpen(readable);
        const int64_t mine = inputs_.Deadline();
        *deadline = mine < 0 ? *deadline : *deadline < 0 ? mine : std::min(*deadline, mine);
    }
    for (const uint32_t output : info_.outputs) { // also what was sent from other threads
        uint32_t queue = 0;
        if (node_->outputs->WaitsFor(output, &queue)) {
            writable->push_back(queue);
        }
    }
}
}  // namespace dflow
