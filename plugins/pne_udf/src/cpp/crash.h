// The last words of a process that crashes: signal, node, transaction, stack.
#ifndef DFLOW_UDF_CRASH_H
#define DFLOW_UDF_CRASH_H

#include <cstdint>
#include <string>

namespace dflow {
// Write the stack to standard error before the process dies of a signal that says something is broken. Idempotent.
bool CatchCrashes();

// Give the calling thread a stack for that, so that an overflow of its own is told as well; take it back at its end.
class CrashStack {
public:
    explicit CrashStack(const std::string &name);
    ~CrashStack();

    CrashStack(const CrashStack &) = delete;
    CrashStack &operator=(const CrashStack &) = delete;

private:
    void *memory_;
};

// What the calling thread works on.
void SetCrashTransaction(uint64_t trans_id);
}  // namespace dflow

#endif  // DFLOW_UDF_CRASH_H
