#include "gate.h"

#include "bus.h"

namespace dflow {
namespace {
// The gate that the thread is inside of.
thread_local const Gate *t_inside = nullptr;
}  // namespace

int64_t Gate::Enter()
{
    t_inside = this;
    inside_.fetch_add(1);
    if (!is_closed_.load()) {
        return 0;
    }
    const int64_t began = Now();
    std::unique_lock<std::mutex> guard(lock_);
    while (is_closed_.load()) {
        inside_.fetch_sub(1);
        opened_.wait(guard, [this] { return !is_closed_.load(); });
        inside_.fetch_add(1);
    }
    return Now() - began;
}

bool Gate::Leave()
{
    if (t_inside != this) {
        return false;
    }
    t_inside = nullptr;
    inside_.fetch_sub(1);
    return true;
}

void Gate::Close(bool is_closed)
{
    const std::lock_guard<std::mutex> guard(lock_);
    is_wanted_closed_ = is_closed;
    Decide();
}

void Gate::LetAllPass(bool is_passing)
{
    const std::lock_guard<std::mutex> guard(lock_);
    is_passing_ = is_passing;
    Decide();
}

void Gate::End()
{
    const std::lock_guard<std::mutex> guard(lock_);
    is_over_ = true;
    Decide();
}

void Gate::Decide()
{
    is_closed_.store(is_wanted_closed_ && !is_passing_ && !is_over_);
    opened_.notify_all();
}
}  // namespace dflow
