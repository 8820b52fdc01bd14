// Holds up the threads of an instance between two calls, for a while.
//
// A thread counts as inside from before it may call a function until after. Whoever closes the gate looks at the count
// afterwards, and a thread at the gate after it has been counted, so that one of the two always sees the other: once
// nobody is inside, no call begins until the gate is opened. As dflow_core/executor/gate.py.
#ifndef DFLOW_UDF_GATE_H
#define DFLOW_UDF_GATE_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace dflow {
class Gate {
public:
    // Of a thread that calls functions: wait while the gate is closed; how long that took (nanoseconds).
    int64_t Enter();

    // The thread calls none for now. False, and nothing, for one that is not inside.
    bool Leave();

    // Between two calls: costs one load while the gate is open.
    void Pass()
    {
        if (is_closed_.load(std::memory_order_relaxed) && Leave()) {
            (void)Enter();
        }
    }

    // Of any thread.

    void Close(bool is_closed);

    // Let everybody through, although it is closed: the instance drops what it has; or for good: it ends.
    void LetAllPass(bool is_passing);
    void End();

    bool is_empty() const
    {
        return inside_.load() == 0;
    }

private:
    void Decide();

    std::mutex lock_;
    std::condition_variable opened_;
    std::atomic<bool> is_closed_{false};
    std::atomic<uint32_t> inside_{0};
    bool is_wanted_closed_ = false;
    bool is_passing_ = false;
    bool is_over_ = false;
};

// A thread inside, as long as it works.
class GateVisit {
public:
    explicit GateVisit(Gate *gate) : gate_(gate)
    {
        (void)gate_->Enter();
    }

    ~GateVisit()
    {
        (void)gate_->Leave();
    }

    GateVisit(const GateVisit &) = delete;
    GateVisit &operator=(const GateVisit &) = delete;

private:
    Gate *gate_;
};

// A wait, which counts as no call even where a function waits. What it waited for stays as it is until the gate is open.
class GateRest {
public:
    // `held_up`: gets what the gate took on top, if it is given.
    explicit GateRest(Gate *gate, int64_t *held_up = nullptr) : gate_(gate), held_up_(held_up), was_inside_(gate->Leave())
    {
    }

    ~GateRest()
    {
        const int64_t took = was_inside_ ? gate_->Enter() : 0;
        if (held_up_ != nullptr) {
            *held_up_ += took;
        }
    }

    GateRest(const GateRest &) = delete;
    GateRest &operator=(const GateRest &) = delete;

private:
    Gate *gate_;
    int64_t *held_up_;
    bool was_inside_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_GATE_H
