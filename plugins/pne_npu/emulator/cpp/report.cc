#include "report.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "memory.h"
#include "settings.h"

namespace emu {
namespace {

constexpr int kMostFrames = 24;
std::atomic<unsigned long> misuses{0};

void write_out(const std::string &text) {
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    int target = STDERR_FILENO;
    const std::string &log = settings().log;
    if (!log.empty()) target = open(file_name(log).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (target < 0) return;
    std::size_t done = 0;
    while (done < text.size()) {
        const ssize_t wrote = write(target, text.data() + done, text.size() - done);
        if (wrote <= 0) break;
        done += static_cast<std::size_t>(wrote);
    }
    if (target != STDERR_FILENO) close(target);
}

std::string frame_text(void *address) {
    Dl_info info{};
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return hex(address);
    const char *base = std::strrchr(info.dli_fname, '/');
    const std::string module = base != nullptr ? base + 1 : info.dli_fname;
    if (info.dli_sname != nullptr) return module + "(" + info.dli_sname + ") " + hex(address);
    const auto offset = static_cast<char *>(address) - static_cast<char *>(info.dli_fbase);
    return module + "+" + hex(reinterpret_cast<void *>(offset));
}

std::string trail_text(const Trail &where, const char *words) {
    std::string text = std::string("  ") + words + " in " + where.site.function + ", thread " +
                       std::to_string(where.site.thread) + "\n";
    if (where.frames.empty()) {
        if (where.site.caller != nullptr) text += "    called from " + frame_text(where.site.caller) + "\n";
        return text;
    }
    for (std::size_t i = 0; i < where.frames.size(); ++i) {
        text += "    #" + std::to_string(i) + " " + frame_text(where.frames[i]) + "\n";
    }
    return text;
}

void tell(const char *level, const char *kind, const std::string &text, const std::string &where) {
    write_out(std::string("ACL emulator: ") + level + " " + kind + ": " + text + "\n" + where);
}

struct sigaction before{};

void on_fault(int number, siginfo_t *info, void *) {
    // Only what is safe in a signal handler: the registry is not locked, fixed texts are written.
    if (memory::may_be_device(info->si_addr)) {
        static const char text[] =
            "ACL emulator: misuse host-access: the host read or wrote device memory; copy it with aclrtMemcpy\n";
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        void *frames[kMostFrames];
        backtrace_symbols_fd(frames, backtrace(frames, kMostFrames), STDERR_FILENO);
        static_cast<void>(ignored);
    }
    sigaction(number, &before, nullptr);  // the access happens again and ends as it would have ended
}

}  // namespace

Trail trail(bool always) {
    Trail found{Call::site(), {}};
    if (always || settings().stacks) {
        void *frames[kMostFrames];
        const int count = backtrace(frames, kMostFrames);
        found.frames.assign(frames + (count > 1 ? 1 : 0), frames + count);
    }
    return found;
}

int misuse(int code, const char *kind, const std::string &text, const Trail *origin, const char *origin_words) {
    if (settings().mode != Mode::lenient) {
        ++misuses;
        std::string where = trail_text(trail(true), "misused");
        if (origin != nullptr) where += trail_text(*origin, origin_words);
        tell("misuse", kind, text, where);
        if (settings().mode == Mode::strict) std::abort();
    }
    return fail(code, code / 1000 % 100 == 7 ? "EE1001" : "EH0001", text);
}

int task_misuse(int code, const char *kind, const std::string &text, const Trail &culprit) {
    if (settings().mode != Mode::lenient) {
        ++misuses;
        tell("misuse", kind, text, trail_text(culprit, "submitted"));
        if (settings().mode == Mode::strict) std::abort();
    }
    return code;
}

void caution(const char *kind, const std::string &text) {
    if (settings().mode == Mode::lenient) return;
    const bool ends = settings().mode == Mode::strict;
    if (ends) ++misuses;
    tell(ends ? "misuse" : "warning", kind, text, trail_text(trail(ends), "misused"));
    if (ends) std::abort();
}

void note(const char *kind, const std::string &text, const Trail *origin) {
    if (settings().mode == Mode::lenient) return;
    tell("note", kind, text, origin != nullptr ? trail_text(*origin, "made") : "");
}

unsigned long misuse_count() { return misuses; }

void watch_host_accesses() {
    static std::once_flag once;
    std::call_once(once, [] {
        void *frames[1];
        backtrace(frames, 1);  // loads what it needs now, not in the handler
        struct sigaction action{};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, &action, &before);
    });
}

}  // namespace emu
