#include "log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "bus.h"
#include "flow_func/flow_func_log.h"

namespace dflow {
namespace {
constexpr const char *kNames[] = {"DEBUG", "INFO", "WARN", "ERROR", "NONE"};

struct Settings {
    std::mutex lock;
    std::string name;
};

// Never destroyed: static destructors of user libraries may still log.
Settings &TheSettings()
{
    static auto *const settings = new Settings();
    return *settings;
}

// A formatted text, whatever its length.
std::string Format(const char *format, va_list args)
{
    char buffer[512];
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(buffer, sizeof(buffer), format, args);
    std::string text;
    if (length < 0) {
        text = format;
    } else if (static_cast<size_t>(length) < sizeof(buffer)) {
        text.assign(buffer, static_cast<size_t>(length));
    } else {
        std::vector<char> longer(static_cast<size_t>(length) + 1);
        (void)vsnprintf(longer.data(), longer.size(), format, again);
        text.assign(longer.data(), static_cast<size_t>(length));
    }
    va_end(again);
    return text;
}

// One of the two loggers of the API; DEBUG lines have no limit.
class Logger : public FlowFunc::FlowFuncLogger {
public:
    Logger(const char *tag, TokenBucket info, TokenBucket other) : tag_(tag), buckets_{info, other, other} {}

    bool IsLogEnable(FlowFunc::FlowFuncLogLevel level) override
    {
        return static_cast<int>(level) >= static_cast<int>(LogLevel());
    }

    void Error(const char *fmt, ...) override __attribute__((format(printf, 2, 3)))
    {
        va_list args;
        va_start(args, fmt);
        Write(Level::kError, fmt, args);
        va_end(args);
    }

    void Warn(const char *fmt, ...) override __attribute__((format(printf, 2, 3)))
    {
        va_list args;
        va_start(args, fmt);
        Write(Level::kWarn, fmt, args);
        va_end(args);
    }

    void Info(const char *fmt, ...) override __attribute__((format(printf, 2, 3)))
    {
        va_list args;
        va_start(args, fmt);
        Write(Level::kInfo, fmt, args);
        va_end(args);
    }

    void Debug(const char *fmt, ...) override __attribute__((format(printf, 2, 3)))
    {
        va_list args;
        va_start(args, fmt);
        Write(Level::kDebug, fmt, args);
        va_end(args);
    }

    void Write(Level level, const char *format, va_list args)
    {
        if (level < LogLevel()) {
            return;
        }
        if (level != Level::kDebug) {
            const std::lock_guard<std::mutex> guard(lock_);
            switch (buckets_[static_cast<int>(level) - 1].Take(Now())) {
                case TokenBucket::Verdict::kDrop:
                    return;
                case TokenBucket::Verdict::kNotice:
                    return WriteLine(level, tag_, "too many lines of this level; some are dropped");
                case TokenBucket::Verdict::kPass:
                    break;
            }
        }
        WriteLine(level, tag_, Format(format, args).c_str());
    }

private:
    const char *tag_;
    std::mutex lock_;
    TokenBucket buckets_[3];
};

Logger &TheLogger(FlowFunc::FlowFuncLogType type)
{
    static auto *const debug = new Logger("", TokenBucket(100, 1000), TokenBucket(50, 400));
    static auto *const run = new Logger("", TokenBucket(50, 400), TokenBucket(50, 400));
    return type == FlowFunc::FlowFuncLogType::RUN_LOG ? *run : *debug;
}

Level ReadLevel()
{
    for (const char *const name : {"ASCEND_MODULE_LOG_LEVEL", "ASCEND_GLOBAL_LOG_LEVEL"}) {
        const char *text = getenv(name);
        // The module form is `MODULE=level` pairs; the level of all is the one behind the last sign.
        const char *const sign = text == nullptr ? nullptr : strrchr(text, '=');
        text = sign == nullptr ? text : sign + 1;
        if (text != nullptr && text[0] >= '0' && text[0] <= '4' && text[1] == '\0') {
            return static_cast<Level>(text[0] - '0');
        }
    }
    return Level::kError;
}
}  // namespace

TokenBucket::Verdict TokenBucket::Take(int64_t now_ns)
{
    if (filled_ns_ == 0 || now_ns - filled_ns_ >= kSecond) {
        const int64_t seconds = filled_ns_ == 0 ? 0 : (now_ns - filled_ns_) / kSecond;
        tokens_ = std::min(burst_, tokens_ + std::min(seconds, burst_) * rate_);
        filled_ns_ = filled_ns_ == 0 ? now_ns : filled_ns_ + seconds * kSecond;
    }
    if (tokens_ > 0) {
        tokens_--;
        noticed_ = false;
        return Verdict::kPass;
    }
    const bool is_first = !noticed_;
    noticed_ = true;
    return is_first ? Verdict::kNotice : Verdict::kDrop;
}

Level LogLevel()
{
    static const Level level = ReadLevel();
    return level;
}

void SetLogName(const std::string &name)
{
    Settings &settings = TheSettings();
    const std::lock_guard<std::mutex> guard(settings.lock);
    settings.name = name;
}

void Log(Level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    TheLogger(FlowFunc::FlowFuncLogType::DEBUG_LOG).Write(level, format, args);
    va_end(args);
}

void WriteLine(Level level, const char *tag, const char *text)
{
    Settings &settings = TheSettings();
    std::string line;
    {
        const std::lock_guard<std::mutex> guard(settings.lock);
        line = settings.name.empty() ? "flow_func" : settings.name;
    }
    line += std::string(": ") + kNames[static_cast<int>(level)] + " " + tag + text + "\n";
    size_t done = 0;
    while (done < line.size()) { // one write for a line: processes share the stream
        const ssize_t written = write(STDERR_FILENO, line.data() + done, line.size() - done);
        if (written <= 0) {
            return;
        }
        done += static_cast<size_t>(written);
    }
}
}  // namespace dflow

namespace FlowFunc {
FlowFuncLogger &FlowFuncLogger::GetLogger(FlowFuncLogType type)
{
    return dflow::TheLogger(type);
}

const char *FlowFuncLogger::GetLogExtHeader()
{
    thread_local char header[32] = "";
    if (header[0] == '\0') {
        snprintf(header, sizeof(header), "[tid:%ld]", syscall(SYS_gettid));
    }
    return header;
}
}  // namespace FlowFunc
