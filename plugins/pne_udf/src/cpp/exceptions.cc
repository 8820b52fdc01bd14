// The part of the processor that deals with exceptions of users (runtime-semantics.md section 14).
#include <utility>

#include "log.h"
#include "processor.h"

namespace dflow {
void Processor::Notify(const ExceptionNote &note)
{
    const std::lock_guard<std::mutex> guard(notes_lock_);
    if (own_.Has(note.trans_id)) {
        if (!note.is_expired) {
            return;
        }
        own_.Remove(note.trans_id);
    }
    notes_.push_back(note);
    has_notes_.store(true, std::memory_order_relaxed);
}

void Processor::NoteRaised(const Raised &raised)
{
    ExceptionNote note;
    Bytes members;
    (void)call_.Inherit(&note.head, &members);
    note.code = raised.code;
    note.trans_id = note.head.trans_id;
    note.user_context_id = raised.user_context_id;
    inputs_.Poison(note.trans_id);
    {
        const std::lock_guard<std::mutex> guard(notes_lock_);
        raised_.push_back(note);
        own_.Add(note.trans_id);
    }
    if (node_->on_raised) {
        node_->on_raised();
    }
}

// The call of a function that has raised an exception: its transaction ends with that.
Event Processor::EndRaised(const Raised &raised)
{
    ErrorInfo error = Explain(Outcome());
    error.message = info_.name + " raised exception " + std::to_string(raised.code) + " (user context " +
                    std::to_string(raised.user_context_id) + ")";
    if (!node_->catches_exceptions) {
        error.error_type = "UserException";
        error.hint = "graph.set_exception_catch(True) has it told to the other functions";
        return FailCall(error, raised.code);
    }
    NoteRaised(raised);
    error.kind = "raised";
    error.error_type = "RaisedError";
    error.context = raised.user_context_id;
    arguments_.clear();
    set_.clear();
    run_->ForgetMade();
    const int sent = call_.Fail(error, raised.code);
    return Check(sent) == Event::kRound ? Event::kRound : Event::kCallOk;
}

bool Processor::TakeRaised(ExceptionNote *note)
{
    const std::lock_guard<std::mutex> guard(notes_lock_);
    if (raised_.empty()) {
        return false;
    }
    *note = raised_.front();
    raised_.pop_front();
    return true;
}

// Requests to forget come first; then the smallest transaction. kInputsMissing: there was nothing to deliver.
Event Processor::TakeExceptions()
{
    const std::lock_guard<std::mutex> guard(notes_lock_);
    for (auto at = notes_.begin(); at != notes_.end();) {
        if (at->is_expired) {
            inputs_.Unpoison(at->trans_id);
            at = notes_.erase(at);
        } else {
            ++at;
        }
    }
    auto smallest = notes_.begin();
    for (auto at = notes_.begin(); at != notes_.end(); ++at) {
        smallest = at->trans_id < smallest->trans_id ? at : smallest;
    }
    if (smallest == notes_.end()) {
        has_notes_.store(false, std::memory_order_relaxed);
        return Event::kInputsMissing;
    }
    exception_ = *smallest;
    notes_.erase(smallest);
    has_notes_.store(!notes_.empty(), std::memory_order_relaxed);
    if (info_.is_stream) {
        failure_ = Failure{true, false, exception_.code, exception_.trans_id, "",
                           "function " + info_.name + " takes queues and cannot be told of an exception"};
        return Event::kExceptionInStream;
    }
    return Event::kException;
}

Event Processor::CallException()
{
    inputs_.Poison(exception_.trans_id);
    call_.BeginException(exception_.head);
    run_->Deliver(exception_.code, exception_.user_context_id);
    const Outcome outcome = Invoke({});
    counters_.calls.fetch_add(1, std::memory_order_relaxed);
    run_->ForgetMade();
    if (!outcome.is_exception() && (outcome.code == 0 || outcome.code == kProcPending)) {
        return Event::kCallOk;
    }
    const ErrorInfo error = Explain(outcome);
    counters_.failed.fetch_add(1, std::memory_order_relaxed);
    if (!node_->stops_on_error) { // the transaction has ended: nobody else is to be told
        Log(Level::kError, "told of an exception of transaction %llu: %s: %s",
            static_cast<unsigned long long>(exception_.trans_id), error.error_type.c_str(), error.message.c_str());
        return Event::kCallOk;
    }
    failure_ = Failure{true, true, outcome.code, exception_.trans_id, error.error_type, error.message};
    return Event::kCallFailed;
}
}  // namespace dflow
