// The part of a processor that calls its function for a set of messages, and sees to what came of the call.
#include "processor.h"

#include <algorithm>
#include <cstring>

#include "crash.h"
#include "log.h"

namespace dflow {
namespace {
constexpr size_t kMostShapes = 16;
}  // namespace

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
        return CallStream();
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
    const Outcome outcome = node_->checks_inputs ? InvokeChecked() : Invoke(arguments_);
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

// A sum over what each input holds.
std::vector<uint64_t> Processor::Sums() const
{
    std::vector<uint64_t> sums;
    for (const MessagePtr &msg : set_) {
        const View body = msg->body();
        uint64_t sum = body.size;
        uint64_t word = 0;
        for (uint64_t at = 0; at < body.size; at += sizeof(word)) {
            memcpy(&word, body.data + at, std::min<uint64_t>(sizeof(word), body.size - at));
            sum = (sum ^ word) * 0x9e3779b97f4a7c15U;
            sum ^= sum >> 29;
        }
        sums.push_back(sum);
    }
    return sums;
}

// A call that fails if it has changed an input: who else reads the message would see that.
Outcome Processor::InvokeChecked()
{
    const std::vector<uint64_t> before = Sums();
    Outcome outcome = Invoke(arguments_);
    const std::vector<uint64_t> after = Sums();
    for (size_t i = 0; i < before.size() && outcome.code == 0 && !outcome.is_exception(); i++) {
        if (before[i] != after[i]) {
            outcome.error_type = "InputChangedError";
            outcome.message = info_.name + " wrote into input " + std::to_string(info_.inputs[i]) + " (" +
                              Describe(set_[i]->head(), set_[i]->body()) +
                              "), which other nodes may read: copy it before you change it";
        }
    }
    return outcome;
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
        const ErrorInfo error = Explain(outcome);
        if (node_->failed_calls.is_wanted()) {
            node_->failed_calls.Tell(info_.index, false, GivenOf(set_), error);
        }
        return FailCall(error, outcome.code);
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
}  // namespace dflow
