// What others may ask and tell an instance while it works.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include "instance.h"

namespace dflow {
int Instance::state()
{
    const std::lock_guard<std::mutex> guard(lock_);
    return state_;
}

int Instance::Wait(int state, int64_t wait_ns)
{
    std::unique_lock<std::mutex> guard(lock_);
    (void)changed_.wait_for(guard, std::chrono::nanoseconds(std::max<int64_t>(wait_ns, 0)),
                            [this, state] { return state_ != state || has_raised_; });
    return state_;
}

bool Instance::Trace(const std::string &path, const std::string &head)
{
    const std::lock_guard<std::mutex> guard(lock_);
    errno = EBUSY;
    if (is_started_) {
        return false;
    }
    node_.trace = CallTrace::Open(path, head);
    return node_.trace != nullptr;
}

bool Instance::Start()
{
    const std::lock_guard<std::mutex> guard(lock_);
    const bool is_good = state_ == DFLOW_UDF_READY && !is_started_;
    is_started_ = is_started_ || is_good;
    changed_.notify_all();
    return is_good;
}

void Instance::Stop()
{
    const std::lock_guard<std::mutex> guard(lock_);
    bus_->Stop();
    changed_.notify_all();
}

bool Instance::Suspend()
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (state_ != DFLOW_UDF_RUNNING) {
        return false;
    }
    node_.is_suspended.store(true);
    bus_->gate()->LetAllPass(true);
    changed_.notify_all();
    return true;
}

void Instance::Hold(bool is_held)
{
    bus_->gate()->Close(is_held);
}

bool Instance::is_quiet()
{
    return bus_->gate()->is_empty();
}

bool Instance::Recover()
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (state_ != DFLOW_UDF_SUSPENDED) {
        return false;
    }
    is_recovering_ = true;
    changed_.notify_all();
    return true;
}

bool Instance::Stats(int32_t func, dflow_udf_stats *out)
{
    if (func >= static_cast<int32_t>(processors_.size())) {
        return false;
    }
    *out = dflow_udf_stats();
    for (size_t i = 0; i < processors_.size(); i++) {
        if (func >= 0 && static_cast<size_t>(func) != i) {
            continue;
        }
        const Counters &counters = processors_[i]->counters();
        out->calls += counters.calls.load();
        out->failed += counters.failed.load();
        out->busy_ns += counters.busy_ns.load();
        out->pending += counters.pending.load();
        const int64_t since = counters.current_since.load();
        if (since != 0 && (out->current_since == 0 || since < out->current_since)) {
            out->current_since = since;
            out->current_trans = counters.current_trans.load();
        }
        out->state = counters.state.load();
    }
    if (func < 0) {
        out->state = static_cast<uint32_t>(state());
    }
    out->sent = outputs_->sent();
    out->blocked_ns = outputs_->blocked_ns();
    return true;
}

bool Instance::TakeRaised(ExceptionNote *note)
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        has_raised_ = false;
    }
    return std::any_of(processors_.begin(), processors_.end(),
                       [note](const auto &processor) { return processor->TakeRaised(note); });
}

void Instance::Notify(const std::string &scope, const ExceptionNote &note)
{
    if (!scope.empty() && scope != node_.scope) {
        for (const auto &entry : node_.invoked) { // raised inside of a model that is being run
            if (scope.find("/" + entry.first) != std::string::npos) {
                entry.second->Cancel(note.trans_id);
            }
        }
    }
    if (scope == node_.scope) {
        for (const auto &processor : processors_) {
            processor->Notify(note);
        }
    }
}

Failure Instance::failure()
{
    const std::lock_guard<std::mutex> guard(lock_);
    return failure_;
}
}  // namespace dflow
