#include "crash.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

// What libstdc++ demangles with where nothing may be allocated; its shared library does not export it, so that setup.py
// links that part of it in. Null where there is none.
extern "C" int __gcclibcxx_demangle_callback(const char *mangled, void (*tell)(const char *, size_t, void *),
                                             void *opaque) __attribute__((weak));

namespace dflow {
namespace {
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kSignalCount = sizeof(kSignals) / sizeof(kSignals[0]);
constexpr size_t kStackBytes = 256 * 1024;
constexpr int kMostFrames = 64;
constexpr unsigned kPatience = 5; // seconds

struct sigaction g_before[kSignalCount];

struct ThreadNote {
    char name[128];
    volatile uint64_t trans_id;
};

thread_local ThreadNote t_note = {};
char g_name[sizeof(t_note.name)] = {}; // of the node, for threads that a function made

// One line of the last words, written at once, so that other threads cannot write into it. Only what a signal handler
// may use. What is too long is cut.
class Line {
public:
    Line &operator<<(const char *text)
    {
        Add(text, strlen(text));
        return *this;
    }

    Line &operator<<(uint64_t value)
    {
        return Number(value, 10);
    }

    Line &Hex(uint64_t value)
    {
        *this << "0x";
        return Number(value, 16);
    }

    void Add(const char *text, size_t size)
    {
        size = size < kMost - size_ ? size : kMost - size_;
        memcpy(text_ + size_, text, size);
        size_ += size;
    }

    void Write()
    {
        text_[size_++] = '\n';
        for (size_t done = 0; done < size_;) {
            const ssize_t written = write(STDERR_FILENO, text_ + done, size_ - done);
            if (written <= 0) {
                break;
            }
            done += static_cast<size_t>(written);
        }
        size_ = 0;
    }

private:
    static constexpr size_t kMost = 500;

    Line &Number(uint64_t value, unsigned base)
    {
        char digits[32];
        char *at = digits + sizeof(digits) - 1;
        *at = '\0';
        do {
            *--at = "0123456789abcdef"[value % base];
            value /= base;
        } while (value != 0);
        return *this << at;
    }

    char text_[kMost + 1];
    size_t size_ = 0;
};

void AddPiece(const char *text, size_t size, void *line)
{
    static_cast<Line *>(line)->Add(text, size);
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

// Where the thread was when the signal came; null where that is not known.
const void *PlaceOf(const void *context)
{
    const auto *const machine = &static_cast<const ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
    return reinterpret_cast<const void *>(machine->gregs[REG_RIP]);
#elif defined(__aarch64__)
    return reinterpret_cast<const void *>(machine->pc);
#else
    (void)machine;
    return nullptr;
#endif
}

// `  #2 demo::Scale::Proc(...)+0x1c, libscale.so+0x1b03e`
void TellFrame(uint64_t number, const void *place, const Dl_info &info)
{
    Line line;
    line << "  #" << number << " ";
    if (info.dli_sname != nullptr) {
        if (__gcclibcxx_demangle_callback == nullptr ||
            __gcclibcxx_demangle_callback(info.dli_sname, AddPiece, &line) != 0) {
            line << info.dli_sname;
        }
        line << "+";
        line.Hex(static_cast<uint64_t>(static_cast<const char *>(place) - static_cast<const char *>(info.dli_saddr)));
        line << ", ";
    }
    if (info.dli_fname != nullptr) {
        line << info.dli_fname << "+";
        place = reinterpret_cast<const void *>(static_cast<const char *>(place) -
                                               static_cast<const char *>(info.dli_fbase));
    }
    line.Hex(reinterpret_cast<uintptr_t>(place));
    line.Write();
}

// The frames from where the signal came up to the last that the runtime called; all if it is none of the user's.
void TellStack(const void *context)
{
    void *frames[kMostFrames];
    const int count = backtrace(frames, kMostFrames);
    int first = 0;
    for (int i = 0; i < count && first == 0; i++) {
        first = frames[i] == PlaceOf(context) ? i : 0; // before it are this handler's
    }
    Dl_info mine = {};
    (void)dladdr(reinterpret_cast<const void *>(&TellStack), &mine);
    Dl_info info[kMostFrames] = {};
    int last = count;
    for (int i = first; i < count; i++) {
        (void)dladdr(frames[i], &info[i]);
        last = last == count && i > first && info[i].dli_fbase == mine.dli_fbase ? i : last;
    }
    if (info[first].dli_fbase == mine.dli_fbase) {
        last = count;
    }
    for (int i = first; i < last; i++) {
        TellFrame(static_cast<uint64_t>(i - first), frames[i], info[i]);
    }
    if (last < count) {
        Line line;
        line << "  (and " << static_cast<uint64_t>(count - last) << " of the runtime)";
        line.Write();
    }
}

void OnCrash(int number, siginfo_t *info, void *context)
{
    static std::atomic_flag is_telling = ATOMIC_FLAG_INIT;
    if (is_telling.test_and_set()) { // another thread crashed before, and ends us when it has told; a limit in any case
        (void)sleep(kPatience);
    }
    // Whoever handled it before has the next word; a second crash in here has the last.
    for (size_t i = 0; i < kSignalCount; i++) {
        if (kSignals[i] == number) {
            (void)sigaction(number, &g_before[i], nullptr);
        }
    }
    Line line;
    line << (t_note.name[0] == '\0' ? g_name : t_note.name) << ": crashed with " << NameOf(number);
    if (number != SIGABRT) {
        line << " at ";
        line.Hex(reinterpret_cast<uintptr_t>(info->si_addr));
    }
    if (t_note.trans_id != 0) {
        line << " in transaction " << t_note.trans_id;
    }
    line << ", stack (innermost first):";
    line.Write();
    TellStack(context);
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
    static std::mutex lock;
    {
        const std::lock_guard<std::mutex> guard(lock);
        memcpy(g_name, t_note.name, sizeof(g_name));
    }
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
