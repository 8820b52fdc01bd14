// Misuse is told with the stack of the culprit; in strict mode the process ends there.
#pragma once

#include <string>
#include <vector>

#include "call.h"

namespace emu {

// A call stack, kept where settings().stacks says so; else only the caller.
struct Trail {
    Site site;
    std::vector<void *> frames;
};

// Where the running call comes from.
//   always: keep the whole stack, whatever the settings say.
Trail trail(bool always = false);

// Tell of a misuse and give back the code that hardware gives (5.5 text included). Nothing is told in lenient mode.
//   kind: short stable word, such as double-free.
//   origin: where the thing misused comes from, with words for it; may be empty.
int misuse(int code, const char *kind, const std::string &text, const Trail *origin = nullptr,
           const char *origin_words = "made");
// The same for a task that ran on a stream: `culprit` submitted it.
int task_misuse(int code, const char *kind, const std::string &text, const Trail &culprit);
// Tell of something that hardware lets pass; an abort in strict mode.
void caution(const char *kind, const std::string &text);
// Tell of something at the end of the program; never aborts.
void note(const char *kind, const std::string &text, const Trail *origin = nullptr);
unsigned long misuse_count();

// Make a host access to device memory say what it is before the process dies of it.
void watch_host_accesses();

}  // namespace emu
