// Calls as lines of JSON, for a timeline.
#ifndef DFLOW_UDF_TRACE_H
#define DFLOW_UDF_TRACE_H

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "bus.h"

namespace dflow {
// Appends to a file; any thread. A process that is killed loses its last lines only.
class CallTrace {
public:
    // Null with errno if the file cannot be written. `head` is how each line begins: `{"node": "n", `.
    static std::unique_ptr<CallTrace> Open(const std::string &path, const std::string &head);

    ~CallTrace();

    CallTrace(const CallTrace &) = delete;
    CallTrace &operator=(const CallTrace &) = delete;

    // One call; times are CLOCK_MONOTONIC nanoseconds.
    void Tell(uint64_t trans_id, int64_t start, int64_t end);

private:
    CallTrace(FILE *file, std::string head);

    FILE *file_;
    const std::string head_;
    std::mutex lock_;
    uint64_t lines_ = 0;
};
// A call, from here to the end of the block; nothing is asked of the clock where nobody wants it.
class Traced {
public:
    Traced(CallTrace *trace, uint64_t trans_id) : trace_(trace), trans_id_(trans_id), start_(trace == nullptr ? 0 : Now())
    {
    }

    ~Traced()
    {
        if (trace_ != nullptr) {
            trace_->Tell(trans_id_, start_, Now());
        }
    }

    Traced(const Traced &) = delete;
    Traced &operator=(const Traced &) = delete;

private:
    CallTrace *trace_;
    uint64_t trans_id_;
    int64_t start_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_TRACE_H
