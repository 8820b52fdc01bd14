/// Log lines of functions; they go where the executor's own go.
#ifndef FLOW_FUNC_FLOW_FUNC_LOG_H
#define FLOW_FUNC_FLOW_FUNC_LOG_H

#include "flow_func_defines.h"

namespace FlowFunc {
enum class FlowFuncLogType { DEBUG_LOG = 0, RUN_LOG = 1 };

enum class FlowFuncLogLevel { DEBUG = 0, INFO = 1, WARN = 2, ERROR = 3 };

/// A logger. Lines beyond a rate are dropped, after a line that says so.
///
/// Levels: ASCEND_MODULE_LOG_LEVEL or ASCEND_GLOBAL_LOG_LEVEL, 0 (all) to 4 (none); 3 if neither is set.
class FLOW_FUNC_VISIBILITY FlowFuncLogger {
public:
    static FlowFuncLogger &GetLogger(FlowFuncLogType type);

    /// The calling thread, as in "[tid:17]".
    static const char *GetLogExtHeader();

    FlowFuncLogger() = default;

    virtual ~FlowFuncLogger() = default;

    virtual bool IsLogEnable(FlowFuncLogLevel level) = 0;

    virtual void Error(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;

    virtual void Warn(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;

    virtual void Info(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;

    virtual void Debug(const char *fmt, ...) __attribute__((format(printf, 2, 3))) = 0;
};
}  // namespace FlowFunc

#define FLOW_FUNC_LOG_AT_(type, method, tag, fmt, ...)                                                          \
    FlowFunc::FlowFuncLogger::GetLogger(FlowFunc::FlowFuncLogType::type)                                        \
        .method("[%s:%d][%s]%s" tag ": " fmt, __FILE__, __LINE__, __FUNCTION__,                                 \
                FlowFunc::FlowFuncLogger::GetLogExtHeader(), ##__VA_ARGS__)

#define FLOW_FUNC_LOG_IF_(type, level, method, tag, fmt, ...)                                                   \
    do {                                                                                                        \
        if (FlowFunc::FlowFuncLogger::GetLogger(FlowFunc::FlowFuncLogType::type)                                \
                .IsLogEnable(FlowFunc::FlowFuncLogLevel::level)) {                                              \
            FLOW_FUNC_LOG_AT_(type, method, tag, fmt, ##__VA_ARGS__);                                           \
        }                                                                                                       \
    } while (false)

#define FLOW_FUNC_LOG_DEBUG(fmt, ...) FLOW_FUNC_LOG_IF_(DEBUG_LOG, DEBUG, Debug, "", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_LOG_INFO(fmt, ...) FLOW_FUNC_LOG_IF_(DEBUG_LOG, INFO, Info, "", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_LOG_WARN(fmt, ...) FLOW_FUNC_LOG_IF_(DEBUG_LOG, WARN, Warn, "", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_LOG_ERROR(fmt, ...)                                         \
    do {                                                                      \
        FLOW_FUNC_LOG_AT_(DEBUG_LOG, Error, "", fmt, ##__VA_ARGS__);          \
    } while (false)
#define FLOW_FUNC_RUN_LOG_INFO(fmt, ...) FLOW_FUNC_LOG_IF_(RUN_LOG, INFO, Info, "[RUN]", fmt, ##__VA_ARGS__)
#define FLOW_FUNC_RUN_LOG_ERROR(fmt, ...)                                     \
    do {                                                                      \
        FLOW_FUNC_LOG_AT_(RUN_LOG, Error, "[RUN]", fmt, ##__VA_ARGS__);       \
    } while (false)

#endif  // FLOW_FUNC_FLOW_FUNC_LOG_H
