// Streams: queues of tasks, each with a thread of its own that starts with the first task.
//
// Whoever waits for a stream runs its next task himself if its thread has not taken it yet; that saves two changes of
// thread for the common "submit, synchronise". For the same reason a submission does not wake the thread at once: the
// submitter's next call does, unless it waits for the stream. If there is no next call, the thread finds the task when
// it looks again, which it does for a while after its last task.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device.h"
#include "memory.h"

namespace emu {

constexpr unsigned kMostStreams = 1024;  // of a device

struct Poller;

struct Task {
    const char *kind = "";            // execute, memcpy, memset, record, wait, callback
    std::string label;                // for the timeline
    std::size_t bytes = 0;
    bool own_thread = false;          // must run on the stream's thread
    bool brings_faults = false;       // it asks the fault script itself
    std::vector<BlockPtr> uses;       // blocks it reads or writes
    Trail made;
    std::function<int()> run;         // gives a code
};

struct Stream {
    void *handle = nullptr;
    unsigned id = 0;
    unsigned priority = 0;
    unsigned flags = 0;
    int device = 0;
    std::weak_ptr<Context> context;
    Trail made;

    std::mutex mutex;
    std::condition_variable work;   // for the thread
    std::condition_variable done;   // for those who wait
    std::deque<Task> tasks;
    std::uint64_t submitted = 0;
    std::atomic<std::uint64_t> completed{0};
    std::uint64_t wanted = 0;       // lazy order: tasks up to here may run
    bool busy = false;
    bool ending = false;
    bool asleep = false;            // its thread does not look for tasks until it is woken
    std::atomic<bool> dropped{false};
    bool aborted = false;
    bool stops_on_failure = false;
    bool failure_mode_set = false;
    int error = 0;                  // sticky until the next synchronise
    int fresh_error = 0;            // since the last event was recorded; goes on to those who wait for that event
    std::thread thread;

    std::shared_ptr<Poller> poller;  // who serves its callbacks
    bool has_host_functions = false;
    bool has_callbacks = false;
};

using StreamPtr = std::shared_ptr<Stream>;

Table<Stream> &streams();
StreamPtr make_stream(const ContextPtr &context, unsigned priority, unsigned flags, bool is_default);
// End the streams of a context, after their work or without it.
void end_streams(const ContextPtr &context, bool forced);
// The stream a call means, checked to be of the current context where `same_context`; `code` says what is wrong.
//   NULL means the default stream of the current context.
StreamPtr stream_of(void *handle, bool same_context, int &code);
int submit(const StreamPtr &stream, Task task);
// Wait for what has been submitted so far; milliseconds, or -1 without limit. Gives the sticky error.
int synchronize(const StreamPtr &stream, int timeout, int expiry_code);
// In lazy order, let everything submitted so far run.
void push_on(const StreamPtr &stream);
// Stream whose callback runs on this thread; nullptr outside of callbacks.
const Stream *callback_stream();
void set_callback_stream(const Stream *stream);
unsigned stream_count(int device);
// Whether a stream's work is not wanted any more; what fault scripts ask.
bool is_dropped(void *stream);

}  // namespace emu
