// The fault script: calls and tasks that fail, hang, or take their time.
#pragma once

namespace emu::faults {

// Whether there is a script at all.
bool armed();
// Another script in place of it; nullptr for none.
void replace(const char *text);
// Apply the script to a call of the library; the code it must give, or 0.
int at_call(const char *function);
// Apply the script to a task about to run on a stream: its code, or 0.
//   task: execute, memcpy, memset, record, wait or callback.
//   stopped: says whether a hanging task must end.
int at_task(const char *task, int device, bool (*stopped)(void *), void *context);

}  // namespace emu::faults
