// What every function of the library begins with, and how it refuses.
#pragma once

#include <cstdint>
#include <string>

namespace emu {

// Where something was called from: the function of the library, its caller, and the calling thread.
struct Site {
    const char *function = "";
    void *caller = nullptr;
    long thread = 0;
};

// Names the function that runs on this thread for as long as it lives, and asks the fault script about it.
//   waits: it is going to wait for a stream, and may run what is to be done there itself.
class Call {
public:
    Call(const char *function, void *caller, bool waits = false);
    ~Call();
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;
    static Site site();
    // The code a fault script wants this call to give; 0 for none.
    int fault() const;

private:
    Site before_;
};

// What this thread's next call does first, unless it waits; nullptr for nothing.
extern thread_local void (*at_next_call)();

// Keep a text for aclGetRecentErrMsg and give the code back.
//   id: of the families EE (runtime), EH (ACL) or E1 (graph engine).
int fail(int code, const char *id, const std::string &text, const std::string &cause = "");
int null_argument(const char *name);
// The text collected for this thread, emptied; nullptr if there is none.
const char *take_message();
void set_process_messages(bool shared);
int last_error(bool reset);
// Name of a code, such as ACL_ERROR_RT_PARAM_INVALID; "" if unknown.
const char *code_name(int code);

std::string hex(const void *pointer);

}  // namespace emu

#define ACL_CALL(name)                                       \
    emu::Call call_(#name, __builtin_return_address(0));     \
    if (const int code_ = call_.fault(); code_ != 0) return code_

#define ACL_WAITING_CALL(name)                                     \
    emu::Call call_(#name, __builtin_return_address(0), true);     \
    if (const int code_ = call_.fault(); code_ != 0) return code_

#define ACL_NAMED(name) emu::Call call_(#name, __builtin_return_address(0))

#define ACL_NOT_NULL(argument) \
    if ((argument) == nullptr) return emu::null_argument(#argument)
