// Devices and contexts, and which context is current on a thread.
#pragma once

#include <atomic>
#include <memory>

#include "report.h"
#include "table.h"

namespace emu {

struct Stream;

struct Context {
    void *handle = nullptr;
    int device = 0;
    bool is_default = false;
    std::atomic<bool> alive{true};
    std::shared_ptr<Stream> stream;  // its default stream
    void *stream_handle = nullptr;
    Trail made;
};

using ContextPtr = std::shared_ptr<Context>;

// Devices that are visible, after ASCEND_RT_VISIBLE_DEVICES; 0 where that list is wrong.
unsigned device_count();
bool device_exists(int device);
// Refuse a device id that is out of range.
int bad_device(int device);
// The context of this thread; nullptr without one or if it has been destroyed.
ContextPtr current_context();
Table<Context> &contexts();

bool is_lost(int device);
void lose_device(int device);
void lose_current_device();
bool any_device_open();
// Reset every device that is still open; for aclFinalize.
void close_devices();

}  // namespace emu

// The current context as `context`, or 107002.
#define ACL_CONTEXT(context)                                                                                        \
    const emu::ContextPtr context = emu::current_context();                                                        \
    if (context == nullptr)                                                                                         \
    return emu::fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "this thread has no current context",                    \
                     "aclrtSetDevice or aclrtSetCurrentContext was not called on it, or the context was destroyed")
