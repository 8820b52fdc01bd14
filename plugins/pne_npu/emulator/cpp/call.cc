#include "call.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <mutex>

#include "acl/acl_error_codes.h"
#include "faults.h"

namespace emu {
namespace {

thread_local Site running;
thread_local std::string pending;
thread_local std::string returned;
thread_local int last = 0;
bool shared_messages = false;
std::mutex shared_mutex;
std::string shared_pending;

long thread_id() {
    static thread_local const long id = syscall(SYS_gettid);
    return id;
}

bool is_runtime(int code) {
    const int layer = code / 1000 % 100;
    return layer == 7;
}

}  // namespace

thread_local void (*at_next_call)() = nullptr;

Call::Call(const char *function, void *caller, bool waits) : before_(running) {
    if (at_next_call != nullptr && !waits) at_next_call();
    running = Site{function, caller, thread_id()};
}

Call::~Call() { running = before_; }

Site Call::site() {
    if (running.thread == 0) running.thread = thread_id();
    return running;
}

int Call::fault() const { return faults::armed() ? faults::at_call(running.function) : 0; }

int fail(int code, const char *id, const std::string &text, const std::string &cause) {
    char stamp[40];
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    tm parts{};
    localtime_r(&now.tv_sec, &parts);
    strftime(stamp, sizeof stamp, "%Y-%m-%d-%H:%M:%S", &parts);
    std::string message = "[PID: " + std::to_string(getpid()) + "] " + stamp + " Invalid_Argument(" + id + "): "
            + text +
                          "\n";
    if (!cause.empty()) message += "        Possible Cause: " + cause + "\n";
    message += "        TraceBack (most recent call last):\n        " + std::string(Call::site().function) + " gave " +
               std::to_string(code) + " " + code_name(code) + "\n";
    if (shared_messages) {
        const std::lock_guard<std::mutex> lock(shared_mutex);
        shared_pending += message;
    } else {
        pending += message;
    }
    if (is_runtime(code)) last = code;
    return code;
}

int null_argument(const char *name) {
    return fail(ACL_ERROR_INVALID_PARAM, "EH0002", std::string(name) + " of " + Call::site().function + " is NULL");
}

const char *take_message() {
    if (shared_messages) {
        const std::lock_guard<std::mutex> lock(shared_mutex);
        returned = shared_pending;
        shared_pending.clear();
    } else {
        returned = pending;
        pending.clear();
    }
    return returned.empty() ? nullptr : returned.c_str();
}

void set_process_messages(bool shared) { shared_messages = shared; }

int last_error(bool reset) {
    const int code = last;
    if (reset) last = 0;
    return code;
}

std::string hex(const void *pointer) {
    char text[24];
    snprintf(text, sizeof text, "%p", pointer);
    return text;
}

}  // namespace emu
