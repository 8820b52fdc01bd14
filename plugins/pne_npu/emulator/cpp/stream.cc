#include "stream.h"

#include <chrono>
#include <random>

#include "acl/acl_rt.h"
#include "faults.h"
#include "settings.h"
#include "timeline.h"

namespace emu {
namespace {

constexpr int kPatientMs = 1000;
constexpr std::chrono::microseconds kLook{200};  // how long a thread with nothing to do waits before it looks again
constexpr int kLooks = 100;                      // how often it does so before it sleeps

thread_local const Stream *in_callback = nullptr;
thread_local const Stream *own_stream = nullptr;
thread_local StreamPtr unwoken;  // has a task of this thread's that its own thread has not been told of

void wake_unwoken() {
    at_next_call = nullptr;
    if (unwoken != nullptr) unwoken->work.notify_one();
    unwoken = nullptr;
}

void doze() {
    if (settings().order != Order::random) return;
    thread_local std::minstd_rand random{std::random_device{}()};
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
}

int run_task(Stream &stream, Task &task) {
    if (stream.dropped) return ACL_ERROR_RT_STREAM_ABORT;
    const timeline::Slice slice(stream.device, stream.id, task.label.empty() ? task.kind : task.label.c_str(),
            task.bytes);
    doze();
    if (faults::armed() && !task.brings_faults) {
        const int code = faults::at_task(task.kind, stream.device, is_dropped, &stream);
        if (code != 0) return code;
    }
    if (is_lost(stream.device)) return ACL_ERROR_RT_LOST_HEARTBEAT;
    for (const BlockPtr &block : task.uses) {
        if (block->freed) {
            return task_misuse(ACL_ERROR_RT_DEVICE_MEM_ERROR, "use-after-free",
                               std::string("a task (") + task.kind + ") uses block " + hex(block->address) +
                                   ", which was freed before it ran", task.made);
        }
    }
    return task.run();
}

// Whether a task may start; the stream is locked.
bool ready(const Stream &stream) {
    if (stream.busy || stream.tasks.empty()) return false;
    return settings().order != Order::lazy || stream.completed < stream.wanted || stream.ending;
}

// Run the first task; the stream is locked before and after.
void run_first(Stream &stream, std::unique_lock<std::mutex> &lock) {
    Task task = std::move(stream.tasks.front());
    stream.tasks.pop_front();
    stream.busy = true;
    lock.unlock();
    const int code = run_task(stream, task);
    for (const BlockPtr &block : task.uses) --block->pending;
    task = Task{};
    lock.lock();
    stream.busy = false;
    ++stream.completed;
    if (code != 0 && stream.error == 0) stream.error = code;
    if (code != 0 && stream.fresh_error == 0) stream.fresh_error = code;
    if (code != 0 && stream.stops_on_failure) {
        for (Task &rest : stream.tasks) {
            for (const BlockPtr &block : rest.uses) --block->pending;
        }
        stream.completed += stream.tasks.size();
        stream.tasks.clear();
    }
    stream.done.notify_all();
}

// Wait until there is a task to run, or the stream ends.
void wait_for_work(Stream &stream, std::unique_lock<std::mutex> &lock) {
    const auto called = [&] { return ready(stream) || (stream.ending && stream.tasks.empty()); };
    for (int i = 0; i < kLooks; ++i) {
        if (stream.work.wait_for(lock, kLook, called)) return;
    }
    stream.asleep = true;
    stream.work.wait(lock, called);
    stream.asleep = false;
}

void work(const StreamPtr &stream) {
    own_stream = stream.get();
    std::unique_lock<std::mutex> lock(stream->mutex);
    for (;;) {
        wait_for_work(*stream, lock);
        if (stream->ending && stream->tasks.empty()) return;
        run_first(*stream, lock);
    }
}

// End a stream's thread; its tasks run first, or not at all.
void end_stream(const StreamPtr &stream, bool forced) {
    if (forced) stream->dropped = true;
    {
        const std::lock_guard<std::mutex> lock(stream->mutex);
        stream->ending = true;
    }
    stream->work.notify_all();
    stream->done.notify_all();
    if (stream->thread.joinable()) {
        if (stream->thread.get_id() == std::this_thread::get_id()) stream->thread.detach();
        else stream->thread.join();
    }
}

unsigned in_flight(Stream &stream) {
    const std::lock_guard<std::mutex> lock(stream.mutex);
    return static_cast<unsigned>(stream.submitted - stream.completed);
}

int destroy(void *handle, bool forced) {
    int code = 0;
    const StreamPtr stream = stream_of(handle, true, code);
    if (stream == nullptr) return code;
    if (in_callback != nullptr) return misuse(ACL_ERROR_RT_INTERNAL_ERROR, "sync-in-callback",
            "a stream is destroyed from inside a callback");
    const ContextPtr context = stream->context.lock();
    if (context != nullptr && context->stream == stream) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "default-stream", "the default stream goes with its context");
    }
    if (const unsigned rest = in_flight(*stream); rest > 0) {
        caution("destroyed-in-flight", "stream " + hex(handle) + " is destroyed with " + std::to_string(rest) +
                " tasks in flight" + (forced ? "; they are dropped" : ""));
    }
    if (stream->poller != nullptr) {
        caution("destroyed-subscribed", "stream " + hex(handle) + " is destroyed while a thread is subscribed to it");
    }
    streams().remove(handle);
    end_stream(stream, forced);
    return ACL_SUCCESS;
}

}  // namespace

bool is_dropped(void *stream) { return static_cast<Stream *>(stream)->dropped; }

Table<Stream> &streams() {
    static Table<Stream> &made = *new Table<Stream>(Tag::stream);
    return made;
}

StreamPtr make_stream(const ContextPtr &context, unsigned priority, unsigned flags, bool is_default) {
    static std::atomic<unsigned> ids{0};
    auto stream = std::make_shared<Stream>();
    stream->id = ids++;
    stream->priority = priority;
    stream->flags = flags;
    stream->device = context->device;
    stream->context = context;
    stream->made = trail();
    stream->handle = streams().add(stream);
    if (is_default) {
        context->stream = stream;
        context->stream_handle = stream->handle;
    }
    return stream;
}

void end_streams(const ContextPtr &context, bool forced) {
    for (const auto &[handle, stream] : streams().all()) {
        if (stream->context.lock() != context) continue;
        if (stream != context->stream && !context->is_default) {
            note("leak", "a stream was not destroyed before its context", &stream->made);
        }
        streams().remove(handle);
        end_stream(stream, forced);
    }
    context->stream = nullptr;
}

StreamPtr stream_of(void *handle, bool same_context, int &code) {
    code = 0;
    if (handle == nullptr) {
        const ContextPtr context = current_context();
        if (context != nullptr) return context->stream;
        code = fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "this thread has no current context, and no stream was named");
        return nullptr;
    }
    StreamPtr stream = streams().find(handle);
    if (stream == nullptr) {
        const bool was = streams().was(handle);
        code = misuse(ACL_ERROR_RT_INVALID_HANDLE, was ? "use-after-destroy" : "foreign-handle",
                      "stream " + hex(handle) + (was ? " has been destroyed" : " was never created"));
        return nullptr;
    }
    if (!same_context) return stream;
    const ContextPtr context = current_context();
    if (context == nullptr) {
        code = fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "this thread has no current context");
    } else if (stream->context.lock() != context) {
        code = misuse(ACL_ERROR_RT_STREAM_CONTEXT, "wrong-context", "stream " + hex(handle) +
                      " is of another context than the current one", &stream->made);
    }
    return code == 0 ? stream : nullptr;
}

int submit(const StreamPtr &stream, Task task) {
    if (is_lost(stream->device)) {
        return fail(ACL_ERROR_RT_LOST_HEARTBEAT, "EE9999", "device " + std::to_string(stream->device) + " is lost");
    }
    if (task.made.site.caller == nullptr) task.made = trail();
    for (const BlockPtr &block : task.uses) ++block->pending;
    bool asleep = false;
    {
        const std::lock_guard<std::mutex> lock(stream->mutex);
        stream->tasks.push_back(std::move(task));
        ++stream->submitted;
        asleep = stream->asleep;
        if (!stream->thread.joinable()) stream->thread = std::thread(work, stream);
    }
    if (settings().order == Order::lazy) return ACL_SUCCESS;
    if (asleep) {
        stream->work.notify_one();
    } else {
        unwoken = stream;
        at_next_call = wake_unwoken;
    }
    return ACL_SUCCESS;
}

void push_on(const StreamPtr &stream) {
    if (settings().order != Order::lazy) return;
    {
        const std::lock_guard<std::mutex> lock(stream->mutex);
        stream->wanted = stream->submitted;
    }
    stream->work.notify_one();
}

int synchronize(const StreamPtr &stream, int timeout, int expiry_code) {
    if (in_callback != nullptr || own_stream == stream.get()) {
        return misuse(ACL_ERROR_RT_INTERNAL_ERROR, "sync-in-callback",
                      "a callback waits for a stream; on hardware it would wait for itself");
    }
    push_on(stream);
    std::unique_lock<std::mutex> lock(stream->mutex);
    const std::uint64_t target = stream->submitted;
    const bool helps = (timeout < 0 || timeout >= kPatientMs) && !faults::armed();
    if (!helps || unwoken != stream) wake_unwoken();
    const bool is_own = unwoken == stream;
    const auto reached = [&] { return stream->completed >= target || stream->aborted; };
    const auto may_help = [&] { return helps && ready(*stream) && !stream->tasks.front().own_thread; };
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout < 0 ? 0 : timeout);
    while (!reached()) {
        if (may_help()) {
            run_first(*stream, lock);
        } else if (timeout < 0) {
            stream->done.wait(lock, [&] { return reached() || may_help(); });
        } else if (!stream->done.wait_until(lock, end, [&] { return reached() || may_help(); })) {
            return fail(expiry_code, "EE1002", "what was submitted did not end within " + std::to_string(timeout)
                    + " ms");
        }
    }
    if (is_own) {  // nothing is left to wake its thread for
        unwoken = nullptr;
        at_next_call = nullptr;
    }
    if (stream->aborted) {
        stream->aborted = false;
        return fail(ACL_ERROR_RT_STREAM_ABORT, "EE9999", "the stream was aborted");
    }
    const int code = stream->error;
    stream->error = 0;
    lock.unlock();
    return code == 0 ? 0 : fail(code, "EE9999", std::string("an earlier task of the stream failed: ")
            + code_name(code));
}

const Stream *callback_stream() { return in_callback; }
void set_callback_stream(const Stream *stream) { in_callback = stream; }

unsigned stream_count(int device) {
    unsigned count = 0;
    for (const auto &[handle, stream] : streams().all()) count += stream->device == device;
    return count;
}

}  // namespace emu

using namespace emu;

namespace {

int create_stream(aclrtStream *made, unsigned priority, unsigned flags) {
    ACL_CONTEXT(context);
    if (priority > 7) return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "a stream's priority is from 0 to 7");
    if (stream_count(context->device) >= kMostStreams) {
        return fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "EE1001", "the device has no stream left");
    }
    *made = make_stream(context, priority, flags, false)->handle;
    return ACL_SUCCESS;
}

bool good_timeout(int timeout) { return timeout == -1 || timeout > 0; }

int bad_timeout(int timeout) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "timeout " + std::to_string(timeout)
            + " is neither -1 nor above 0");
}

}  // namespace

extern "C" {

aclError aclrtCreateStream(aclrtStream *stream) {
    ACL_CALL(aclrtCreateStream);
    ACL_NOT_NULL(stream);
    return create_stream(stream, 0, 0);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag) {
    ACL_CALL(aclrtCreateStreamWithConfig);
    ACL_NOT_NULL(stream);
    return create_stream(stream, priority, flag);
}

aclError aclrtDestroyStream(aclrtStream stream) {
    ACL_CALL(aclrtDestroyStream);
    ACL_NOT_NULL(stream);
    return destroy(stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
    ACL_CALL(aclrtDestroyStreamForce);
    ACL_NOT_NULL(stream);
    return destroy(stream, true);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    ACL_WAITING_CALL(aclrtSynchronizeStreamWithTimeout);
    if (!good_timeout(timeout)) return bad_timeout(timeout);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found == nullptr) return code;
    constexpr unsigned untimed = ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
    return (found->flags & untimed) != 0 ? ACL_SUCCESS : synchronize(found, timeout, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    ACL_WAITING_CALL(aclrtSynchronizeStream);
    return aclrtSynchronizeStreamWithTimeout(stream, -1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    ACL_CALL(aclrtSynchronizeDeviceWithTimeout);
    if (!good_timeout(timeout)) return bad_timeout(timeout);
    ACL_CONTEXT(context);
    int first = ACL_SUCCESS;
    for (const auto &[handle, stream] : streams().all()) {
        if (stream->device != context->device) continue;
        const int code = synchronize(stream, timeout, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        if (first == ACL_SUCCESS) first = code;
    }
    return first;
}

aclError aclrtSynchronizeDevice(void) {
    ACL_CALL(aclrtSynchronizeDevice);
    return aclrtSynchronizeDeviceWithTimeout(-1);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status) {
    ACL_CALL(aclrtStreamQuery);
    ACL_NOT_NULL(status);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found == nullptr) return code;
    push_on(found);
    const std::lock_guard<std::mutex> lock(found->mutex);
    *status = found->completed == found->submitted ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

}  // extern "C"
