// Log lines of the runtime and of functions, with a limit on how many.
#ifndef DFLOW_UDF_LOG_H
#define DFLOW_UDF_LOG_H

#include <cstdarg>
#include <cstdint>
#include <string>

namespace dflow {
enum class Level { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kNone = 4 };

// How many lines may pass: `burst` at once, then `rate` more every second.
class TokenBucket {
public:
    TokenBucket(int64_t rate, int64_t burst) : rate_(rate), burst_(burst), tokens_(burst) {}

    enum class Verdict { kPass, kNotice, kDrop };

    // What becomes of a line now; the first of those that are dropped gives a notice.
    Verdict Take(int64_t now_ns);

private:
    int64_t rate_;
    int64_t burst_;
    int64_t tokens_;
    int64_t filled_ns_ = 0;
    bool noticed_ = false;
};

// The level from which lines are written.
Level LogLevel();

// Who writes: `node#instance`, in front of every line.
void SetLogName(const std::string &name);

// A line of the runtime itself, written if the level allows it, at the rate of the debug logger.
void Log(Level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A line as it stands, without a limit.
void WriteLine(Level level, const char *tag, const char *text);
}  // namespace dflow

#endif  // DFLOW_UDF_LOG_H
