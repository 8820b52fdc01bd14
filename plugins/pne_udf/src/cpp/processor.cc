#include "processor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "crash.h"
#include "log.h"

namespace dflow {
namespace {
constexpr size_t kMostShapes = 16;
}  // namespace

Processor::Processor(Node *node, FuncInfo info, std::vector<uint32_t> queues, const std::vector<DeadPart> &dead)
    : node_(node),
      info_(std::move(info)),
      call_(node->bus, node->outputs, &info_),
      inputs_(node->bus, queues, node->notices, dead, node->limits, node->cancelled),
      run_(std::make_shared<RunContext>(node, &info_, &call_))
{
    context_ = run_;
    for (const uint32_t queue : queues) {
        streams_.push_back(std::make_shared<StreamQueue>(node, &info_, &call_, queue));
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
    call_.Reset();
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

bool Processor::IsStreamEnded() const
{
    return !streams_.empty() && std::all_of(streams_.begin(), streams_.end(),
                                            [](const auto &stream) { return stream->is_ended(); });
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

// A set that was given up: stood in for, or ended with an error; what is ended already needs no more. True if it was
// ended here.
bool Processor::FillGaps()
{
    const auto gap = std::find(set_.begin(), set_.end(), nullptr);
    if (gap == set_.end()) {
        return false;
    }
    MessageSet came;
    std::string missing;
    for (size_t i = 0; i < set_.size(); i++) {
        if (set_[i] != nullptr) {
            came.push_back(set_[i]);
        } else {
            missing += (missing.empty() ? "" : ", ") + std::to_string(i);
        }
    }
    if (std::any_of(came.begin(), came.end(), [](const MessagePtr &msg) { return msg->Is(kError | kSkip | kEnd); })) {
        set_ = std::move(came);
        return false;
    }
    if (node_->limits.is_dropping) {
        ErrorInfo error;
        error.kind = "late";
        error.error_type = "LateError";
        error.message = "input " + missing + " did not come within the limits of the alignment";
        error.node = node_->name;
        error.instance = node_->instance;
        call_.Begin(came.front().get());
        set_.clear();
        (void)call_.Fail(error, FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED);
        return true;
    }
    Head head = came.front()->head();
    head.data_flag = kNull;
    head.ret_code = FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED;
    head.msg_type = 0;
    const auto stand_in = std::make_shared<Message>(node_->bus, head);
    std::replace(set_.begin(), set_.end(), MessagePtr(), stand_in);
    return false;
}

Event Processor::CallFunction()
{
    if (is_ending_) {
        (void)call_.Settle();
        return Event::kCallOk;
    }
    if (info_.is_stream) {
        call_.Begin(nullptr);
        counters_.current_since.store(Now(), std::memory_order_relaxed);
        const Outcome outcome = Invoke({});
        counters_.current_since.store(0, std::memory_order_relaxed);
        return EndStreamCall(outcome);
    }
    if (FillGaps()) {
        return Event::kCallOk;
    }
    if (std::any_of(set_.begin(), set_.end(), [](const MessagePtr &msg) { return msg->Is(kError | kSkip | kEnd); })) {
        return PassOn();
    }
    arguments_.assign(set_.begin(), set_.end());
    const auto first = std::find_if(set_.begin(), set_.end(), [](const MessagePtr &msg) {
        return msg->GetRetCode() != FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED;
    });
    const Message *const head = set_.empty() ? nullptr : first == set_.end() ? set_[0].get() : first->get();
    const uint64_t blocked = node_->outputs->blocked_ns();
    const int64_t began = Now();
    call_.Begin(head);
    const uint64_t trans_id = head == nullptr ? 0 : head->head().trans_id;
    counters_.current_trans.store(trans_id, std::memory_order_relaxed);
    counters_.current_since.store(began, std::memory_order_relaxed);
    SetCrashTransaction(trans_id);
    const Outcome outcome = Invoke(arguments_);
    if (!outcome.is_exception() && outcome.code == kProcPending) {
        return Event::kCallPending;
    }
    return EndCall(outcome, began, blocked);
}

// End a set as it is on every output: an error counts more than a skip or the end of a stream.
Event Processor::PassOn()
{
    const auto with = [this](uint8_t bits) {
        return std::find_if(set_.begin(), set_.end(), [bits](const MessagePtr &msg) { return msg->Is(bits); });
    };
    auto found = with(kError);
    found = found == set_.end() ? with(kSkip | kEnd) : found;
    const int code = call_.PassOn(**found);
    set_.clear();
    return code == kOk ? Event::kCallOk : Check(code) == Event::kRound ? Event::kRound : Event::kCallFailed;
}

Outcome Processor::Invoke(const std::vector<FlowMsgPtr> &inputs)
{
    const Traced traced(node_->trace.get(), counters_.current_trans.load(std::memory_order_relaxed));
    return Guarded([&]() -> int32_t {
        if (info_.is_stream) {
            return callee_.queue(context_, stream_arguments_);
        }
        return callee_.single != nullptr ? callee_.single->Proc(inputs) : callee_.plain(context_, inputs);
    });
}

ErrorInfo Processor::Explain(const Outcome &outcome) const
{
    ErrorInfo error;
    error.kind = "node";
    error.node = node_->name;
    error.instance = node_->instance;
    error.error_type = outcome.is_exception() ? outcome.error_type : "NodeError";
    error.message = outcome.is_exception()
                        ? outcome.message
                        : info_.name + " returned code " + std::to_string(outcome.code);
    for (size_t i = 0; i < set_.size() && i < kMostShapes; i++) {
        error.input_shapes.push_back(Describe(set_[i]->head(), set_[i]->body()));
    }
    return error;
}

// Messages of the call that the function has not let go of, although it did not send them.
std::vector<std::weak_ptr<Message>> Processor::Kept()
{
    std::vector<std::weak_ptr<Message>> kept = run_->TakeKept();
    const auto is_sent = [this](const std::weak_ptr<Message> &weak) {
        const MessagePtr msg = weak.lock();
        return msg == nullptr || msg.use_count() - 1 <= call_.Holds(msg.get());
    };
    kept.erase(std::remove_if(kept.begin(), kept.end(), is_sent), kept.end());
    arguments_.clear();
    for (const MessagePtr &msg : set_) {
        const long twice = std::count(set_.begin(), set_.end(), msg);
        if (msg.use_count() > twice + call_.Holds(msg.get())) {
            kept.push_back(msg);
        }
    }
    return kept;
}

Event Processor::EndCall(const Outcome &outcome, int64_t began, uint64_t blocked)
{
    const uint64_t waited = node_->outputs->blocked_ns() - blocked;
    const auto took = static_cast<uint64_t>(Now() - began);
    counters_.busy_ns.fetch_add(took > waited ? took - waited : 0, std::memory_order_relaxed);
    counters_.calls.fetch_add(1, std::memory_order_relaxed);
    counters_.current_since.store(0, std::memory_order_relaxed);
    SetCrashTransaction(0);
    if (outcome.is_exception() || outcome.code != 0) {
        return FailCall(Explain(outcome), outcome.code);
    }
    const Raised raised = call_.TakeRaised();
    if (raised.is_set) {
        return EndRaised(raised);
    }
    std::vector<std::weak_ptr<Message>> kept;
    if (call_.is_silent()) {
        kept = Kept();
    } else {
        run_->ForgetMade();
        arguments_.clear();
    }
    set_.clear();
    const int code = call_.Finish(std::move(kept));
    if (code == kOk) {
        return Event::kCallOk;
    }
    return Check(code) == Event::kRound ? Event::kRound : Event::kCallFailed;
}

Event Processor::FailCall(const ErrorInfo &error, int32_t code)
{
    counters_.failed.fetch_add(1, std::memory_order_relaxed);
    const uint64_t trans_id = set_.empty() ? 0 : set_[0]->head().trans_id;
    const bool is_told = !set_.empty();
    arguments_.clear();
    set_.clear();
    run_->ForgetMade();
    const int sent = call_.Fail(error, code);
    if (node_->stops_on_error || !is_told) { // without inputs there is nobody else to tell
        failure_ = Failure{true, true, code, trans_id, error.error_type, error.message};
        return Event::kCallFailed;
    }
    Log(Level::kError, "transaction %llu: %s: %s", static_cast<unsigned long long>(trans_id), error.error_type.c_str(),
        error.message.c_str());
    return Check(sent) == Event::kRound ? Event::kRound : Event::kCallOk;
}

// A function that ends with one of its queues takes nothing from the others either: what comes there ends as skipped.
bool Processor::LetStreamsPass()
{
    if (std::none_of(streams_.begin(), streams_.end(), [](const auto &stream) { return stream->is_ended(); })) {
        return false;
    }
    for (const auto &stream : streams_) {
        stream->LetPass();
    }
    (void)call_.Settle();
    return true;
}

// A function with queues has returned: because there is no more, or because it failed with what it had taken.
Event Processor::EndStreamCall(const Outcome &outcome)
{
    counters_.calls.fetch_add(1, std::memory_order_relaxed);
    if (node_->is_suspended.load() || node_->bus->is_stopping() || (!outcome.is_exception() && outcome.code == 0)) {
        return Event::kCallOk;
    }
    if (!outcome.is_exception() && outcome.code == FlowFunc::FLOW_FUNC_STATUS_EXIT && LetStreamsPass()) {
        return Event::kCallOk;
    }
    if (!outcome.is_exception() && (outcome.code == kProcPending || IsStreamEnded())) {
        return outcome.code == kProcPending ? Event::kCallPending : Event::kCallOk;
    }
    counters_.failed.fetch_add(1, std::memory_order_relaxed);
    const ErrorInfo error = Explain(outcome);
    const size_t told = call_.FailDebts(error, outcome.code);
    if (told == 0 || node_->stops_on_error) {
        failure_ = Failure{true, true, outcome.code, 0, error.error_type, error.message};
        return Event::kCallFailed;
    }
    return Event::kCallOk;
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
