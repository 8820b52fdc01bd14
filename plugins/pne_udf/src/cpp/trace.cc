#include "trace.h"

#include <cinttypes>
#include <utility>

namespace dflow {
namespace {
constexpr uint64_t kFlushEvery = 64;
}  // namespace

std::unique_ptr<CallTrace> CallTrace::Open(const std::string &path, const std::string &head)
{
    FILE *const file = fopen(path.c_str(), "ae");
    return std::unique_ptr<CallTrace>(file == nullptr ? nullptr : new CallTrace(file, head));
}

CallTrace::CallTrace(FILE *file, std::string head) : file_(file), head_(std::move(head)) {}

CallTrace::~CallTrace()
{
    (void)fclose(file_);
}

void CallTrace::Tell(uint64_t trans_id, int64_t start, int64_t end)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const auto seconds = [](int64_t time) { return time / kSecond; };
    const auto rest = [](int64_t time) { return time % kSecond; };
    (void)fprintf(file_,
                  "%s\"trans_id\": %" PRIu64 ", \"start\": %" PRId64 ".%09" PRId64 ", \"end\": %" PRId64 ".%09" PRId64
                  "}\n",
                  head_.c_str(), trans_id, seconds(start), rest(start), seconds(end), rest(end));
    if (++lines_ % kFlushEvery == 0) {
        (void)fflush(file_);
    }
}
}  // namespace dflow
