// The part of a processor that calls a function which takes from queues itself.
#include "processor.h"

#include <algorithm>

namespace dflow {
bool Processor::IsStreamEnded() const
{
    return !streams_.empty() && std::all_of(streams_.begin(), streams_.end(),
                                            [](const auto &stream) { return stream->is_ended(); });
}

Event Processor::CallStream()
{
    call_.Begin(nullptr);
    counters_.current_since.store(Now(), std::memory_order_relaxed);
    const Outcome outcome = Invoke({});
    counters_.current_since.store(0, std::memory_order_relaxed);
    return EndStreamCall(outcome);
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
    const bool has_lost = call_.has_lost(); // what it was told about has ended; it begins anew with the next
    if (!outcome.is_exception() && outcome.code == FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED && has_lost) {
        return Event::kCallOk;
    }
    if (!outcome.is_exception() && (outcome.code == kProcPending || IsStreamEnded())) {
        return outcome.code == kProcPending ? Event::kCallPending : Event::kCallOk;
    }
    counters_.failed.fetch_add(1, std::memory_order_relaxed);
    const ErrorInfo error = Explain(outcome);
    if (node_->failed_calls.is_wanted()) {
        node_->failed_calls.Tell(info_.index, true, call_.Remembered(), error);
    }
    const size_t told = call_.FailDebts(error, outcome.code);
    call_.LetGoTaken(true);
    if ((told == 0 && !has_lost) || node_->stops_on_error) {
        failure_ = Failure{true, true, outcome.code, 0, error.error_type, error.message};
        return Event::kCallFailed;
    }
    return Event::kCallOk;
}
}  // namespace dflow
