#include "crash.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <mutex>

namespace dflow {
namespace {
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kSignalCount = sizeof(kSignals) / sizeof(kSignals[0]);
constexpr size_t kStackBytes = 256 * 1024;
constexpr int kMostFrames = 64;

struct sigaction g_before[kSignalCount];

struct ThreadNote {
    char name[128];
    volatile uint64_t trans_id;
};

thread_local ThreadNote t_note = {};

// Only what a signal handler may use.
void Say(const char *text)
{
    size_t left = strlen(text);
    while (left != 0) {
        const ssize_t written = write(STDERR_FILENO, text, left);
        if (written <= 0) {
            return;
        }
        text += written;
        left -= static_cast<size_t>(written);
    }
}

void SayNumber(uint64_t value, unsigned base)
{
    char digits[32];
    char *at = digits + sizeof(digits) - 1;
    *at = '\0';
    do {
        *--at = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    Say(at);
}

const char *NameOf(int number)
{
    switch (number) {
        case SIGSEGV:
            return "SIGSEGV (memory that is not there)";
        case SIGBUS:
            return "SIGBUS (memory that cannot be had)";
        case SIGFPE:
            return "SIGFPE (arithmetic)";
        case SIGILL:
            return "SIGILL (no such instruction)";
        default:
            return "SIGABRT (abort)";
    }
}

void OnCrash(int number, siginfo_t *info, void *)
{
    // Whoever handled it before has the next word; a second crash in here has the last.
    for (size_t i = 0; i < kSignalCount; i++) {
        if (kSignals[i] == number) {
            (void)sigaction(number, &g_before[i], nullptr);
        }
    }
    Say(t_note.name[0] == '\0' ? "flow_func" : t_note.name);
    Say(": crashed with ");
    Say(NameOf(number));
    if (number != SIGABRT) {
        Say(" at 0x");
        SayNumber(reinterpret_cast<uintptr_t>(info->si_addr), 16);
    }
    if (t_note.trans_id != 0) {
        Say(" in transaction ");
        SayNumber(t_note.trans_id, 10);
    }
    Say(", stack (innermost first):\n");
    void *frames[kMostFrames];
    const int count = backtrace(frames, kMostFrames);
    backtrace_symbols_fd(frames, count, STDERR_FILENO);
    if (number == SIGABRT || info->si_code <= 0) { // was sent; a fault happens again by itself
        (void)raise(number);
    }
}
}  // namespace

bool CatchCrashes()
{
    static std::once_flag once;
    static bool is_good = true;
    std::call_once(once, [] {
        void *frame = nullptr;
        (void)backtrace(&frame, 1); // loads what it needs now, not in a handler
        struct sigaction action;
        memset(&action, 0, sizeof(action));
        action.sa_sigaction = OnCrash;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        for (size_t i = 0; i < kSignalCount; i++) {
            is_good = sigaction(kSignals[i], &action, &g_before[i]) == 0 && is_good;
        }
    });
    return is_good;
}

CrashStack::CrashStack(const std::string &name)
    : memory_(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0))
{
    strncpy(t_note.name, name.c_str(), sizeof(t_note.name) - 1);
    if (memory_ != MAP_FAILED) {
        stack_t stack;
        memset(&stack, 0, sizeof(stack));
        stack.ss_sp = memory_;
        stack.ss_size = kStackBytes;
        (void)sigaltstack(&stack, nullptr);
    }
}

CrashStack::~CrashStack()
{
    if (memory_ != MAP_FAILED) {
        stack_t stack;
        memset(&stack, 0, sizeof(stack));
        stack.ss_flags = SS_DISABLE;
        (void)sigaltstack(&stack, nullptr);
        (void)munmap(memory_, kStackBytes);
    }
}

void SetCrashTransaction(uint64_t trans_id)
{
    t_note.trans_id = trans_id;
}
}  // namespace dflow
