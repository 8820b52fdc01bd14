// Events: marks in streams that others can wait for.
#include <algorithm>
#include <chrono>
#include <utility>

#include "acl/acl_rt.h"
#include "call.h"
#include "stream.h"
#include "timeline.h"

using namespace emu;

namespace {

constexpr uint32_t kPlain = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE;
constexpr uint32_t kKnown = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
                            ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;

constexpr std::chrono::milliseconds kLookAgain{20};  // a lost device wakes nobody who waits for it

struct Event {
    uint32_t flags = kPlain;
    bool extended = false;
    Trail made;
    std::mutex mutex;
    std::condition_variable reached;
    std::uint64_t recorded = 0;   // times it was put into a stream
    std::uint64_t completed = 0;  // times a stream came to it
    std::uint64_t waited = 0;     // times a stream was made to wait for it, and has
    std::uint64_t waits = 0;
    double at_us = 0;
    int error = 0;                // of the work in front of the mark
    StreamPtr stream;             // the last it was put into
};

using EventPtr = std::shared_ptr<Event>;

Table<Event> &events() {
    static Table<Event> &made = *new Table<Event>(Tag::event);
    return made;
}

EventPtr event_of(void *handle, int &code) {
    code = 0;
    if (handle == nullptr) {
        code = null_argument("event");
        return nullptr;
    }
    EventPtr event = events().find(handle);
    if (event != nullptr) return event;
    const bool was = events().was(handle);
    code = misuse(ACL_ERROR_RT_INVALID_HANDLE, was ? "use-after-destroy" : "foreign-handle",
                  "event " + hex(handle) + (was ? " has been destroyed" : " was never created"));
    return nullptr;
}

int create_event(aclrtEvent *made, uint32_t flags, bool extended) {
    ACL_CONTEXT(context);
    auto event = std::make_shared<Event>();
    event->flags = flags;
    event->extended = extended;
    event->made = trail();
    *made = events().add(event);
    return ACL_SUCCESS;
}

int create_flagged_event(aclrtEvent *made, uint32_t flags, bool extended) {
    const bool alone = (flags & (ACL_EVENT_EXTERNAL | ACL_EVENT_DEVICE_USE_ONLY)) != 0 && (flags & (flags - 1)) != 0;
    if (flags == 0 || (flags & ~kKnown) != 0 || alone) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "flag " + std::to_string(flags) + " of an event is wrong");
    }
    return create_event(made, flags, extended);
}

// Wait until an event was reached as often as it had been recorded by now.
int wait_for(const EventPtr &event, int timeout) {
    if (callback_stream() != nullptr) {
        return misuse(ACL_ERROR_RT_INTERNAL_ERROR, "sync-in-callback", "a callback waits for an event");
    }
    StreamPtr stream;
    std::uint64_t target = 0;
    {
        const std::lock_guard<std::mutex> lock(event->mutex);
        stream = event->stream;
        target = event->recorded;
    }
    if (stream != nullptr) push_on(stream);
    std::unique_lock<std::mutex> lock(event->mutex);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout);
    while (event->completed < target) {
        if (stream != nullptr && is_lost(stream->device)) {
            return fail(ACL_ERROR_RT_LOST_HEARTBEAT, "EE9999", "the device was lost before the event was reached");
        }
        if (timeout >= 0 && std::chrono::steady_clock::now() >= end) {
            return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "EE1002", "the event was not reached within " +
                        std::to_string(timeout) + " ms");
        }
        event->reached.wait_until(lock, timeout < 0 ? std::chrono::steady_clock::now() + kLookAgain
                : std::min(end, std::chrono::steady_clock::now() + kLookAgain));
    }
    return ACL_SUCCESS;
}

}  // namespace

namespace emu {

// Events that live; for the report at the end.
std::vector<Trail> living_events() {
    std::vector<Trail> found;
    for (const auto &[handle, event] : events().all()) found.push_back(event->made);
    return found;
}

void forget_events() { events().clear(); }

}  // namespace emu

extern "C" {

aclError aclrtCreateEvent(aclrtEvent *event) {
    ACL_CALL(aclrtCreateEvent);
    ACL_NOT_NULL(event);
    return create_event(event, kPlain, false);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
    ACL_CALL(aclrtCreateEventWithFlag);
    ACL_NOT_NULL(event);
    return create_flagged_event(event, flag, false);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
    ACL_CALL(aclrtCreateEventExWithFlag);
    ACL_NOT_NULL(event);
    return create_flagged_event(event, flag, true);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    ACL_CALL(aclrtDestroyEvent);
    int code = 0;
    if (event_of(event, code) != nullptr) events().remove(event);
    return code;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    ACL_CALL(aclrtRecordEvent);
    int code = 0;
    const EventPtr found = event_of(event, code);
    if (found == nullptr) return code;
    const StreamPtr target = stream_of(stream, true, code);
    if (target == nullptr) return code;
    {
        const std::lock_guard<std::mutex> lock(found->mutex);
        ++found->recorded;
        found->stream = target;
    }
    Task task;
    task.kind = "record";
    const std::weak_ptr<Stream> own = target;
    task.run = [found, own] {
        int error = 0;
        if (const StreamPtr stream = own.lock(); stream != nullptr) {
            const std::lock_guard<std::mutex> lock(stream->mutex);
            error = std::exchange(stream->fresh_error, 0);
        }
        const std::lock_guard<std::mutex> lock(found->mutex);
        found->error = error;
        ++found->completed;
        found->at_us = timeline::now_us();
        found->reached.notify_all();
        return 0;
    };
    code = submit(target, std::move(task));
    if (code != 0) {
        const std::lock_guard<std::mutex> lock(found->mutex);
        --found->recorded;
    }
    return code;
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
    ACL_CALL(aclrtStreamWaitEventWithTimeout);
    int code = 0;
    const EventPtr found = event_of(event, code);
    if (found == nullptr) return code;
    const StreamPtr target = stream_of(stream, true, code);
    if (target == nullptr) return code;
    if ((found->flags & ACL_EVENT_SYNC) == 0) {
        return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001", "the event was created without ACL_EVENT_SYNC");
    }
    std::uint64_t wanted = 0;
    StreamPtr source;
    {
        const std::lock_guard<std::mutex> lock(found->mutex);
        wanted = found->recorded;
        source = found->stream;
        ++found->waits;
    }
    Task task;
    task.kind = "wait";
    std::weak_ptr<Stream> own = target;
    task.run = [found, wanted, source, own, timeout] {
        if (source != nullptr) push_on(source);
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(timeout);
        std::unique_lock<std::mutex> lock(found->mutex);
        while (found->completed < wanted) {
            const StreamPtr stream = own.lock();
            if (stream == nullptr || stream->dropped) return static_cast<int>(ACL_ERROR_RT_STREAM_ABORT);
            if (is_lost(stream->device)) return static_cast<int>(ACL_ERROR_RT_LOST_HEARTBEAT);
            if (timeout > 0
                    && std::chrono::steady_clock::now() >= end) return static_cast<int>(ACL_ERROR_RT_TASK_TIMEOUT);
            found->reached.wait_for(lock, kLookAgain);
        }
        ++found->waited;
        return found->error;
    };
    return submit(target, std::move(task));
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    ACL_CALL(aclrtStreamWaitEvent);
    return aclrtStreamWaitEventWithTimeout(stream, event, 0);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    ACL_CALL(aclrtResetEvent);
    int code = 0;
    const EventPtr found = event_of(event, code);
    if (found == nullptr) return code;
    if (found->extended) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001", "such events are not reset");
    const StreamPtr target = stream_of(stream, true, code);
    if (target == nullptr) return code;
    Task task;
    task.kind = "record";
    task.run = [] { return 0; };
    return submit(target, std::move(task));
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status) {
    ACL_CALL(aclrtQueryEvent);
    ACL_NOT_NULL(status);
    int code = 0;
    const EventPtr found = event_of(event, code);
    if (found == nullptr) return code;
    if (found->extended) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001", "such events have no old query");
    const std::lock_guard<std::mutex> lock(found->mutex);
    *status = found->completed >= found->recorded && found->recorded > 0 ? ACL_EVENT_STATUS_COMPLETE
                                                                         : ACL_EVENT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    ACL_CALL(aclrtQueryEventStatus);
    ACL_NOT_NULL(status);
    int code = 0;
    const EventPtr found = event_of(event, code);
    if (found == nullptr) return code;
    StreamPtr source;
    {
        const std::lock_guard<std::mutex> lock(found->mutex);
        const bool done = found->recorded == 0 ? found->extended : found->completed >= found->recorded;
        *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
        source = found->stream;
    }
    if (source != nullptr) push_on(source);
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status) {
    ACL_CALL(aclrtQueryEventWaitStatus);
    ACL_NOT_NULL(status);
    int code = 0;
    const EventPtr found = event_of(event, code);
    if (found == nullptr) return code;
    if (found->extended) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001", "such events have no wait status");
    const std::lock_guard<std::mutex> lock(found->mutex);
    *status = found->waited >= found->waits ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    ACL_CALL(aclrtSynchronizeEvent);
    int code = 0;
    const EventPtr found = event_of(event, code);
    return found == nullptr ? code : wait_for(found, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    ACL_CALL(aclrtSynchronizeEventWithTimeout);
    if (timeout != -1 && timeout <= 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
            "the timeout is neither -1 nor above 0");
    int code = 0;
    const EventPtr found = event_of(event, code);
    return found == nullptr ? code : wait_for(found, timeout);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    ACL_CALL(aclrtEventElapsedTime);
    ACL_NOT_NULL(ms);
    double at[2] = {};
    int at_index = 0;
    for (void *handle : {startEvent, endEvent}) {
        int code = 0;
        const EventPtr event = event_of(handle, code);
        if (event == nullptr) return code;
        const std::lock_guard<std::mutex> lock(event->mutex);
        if ((event->flags & ACL_EVENT_TIME_LINE) == 0) {
            return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001", "an event was created without ACL_EVENT_TIME_LINE");
        }
        if (event->recorded == 0) return fail(ACL_ERROR_RT_INTERNAL_ERROR, "EE1001", "an event was never recorded");
        if (event->completed < event->recorded) {
            return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1001", "an event has not been reached");
        }
        at[at_index++] = event->at_us;
    }
    *ms = static_cast<float>((at[1] - at[0]) / 1e3);
    return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp) {
    ACL_CALL(aclrtEventGetTimestamp);
    ACL_NOT_NULL(timestamp);
    int code = 0;
    const EventPtr found = event_of(event, code);
    if (found == nullptr) return code;
    const std::lock_guard<std::mutex> lock(found->mutex);
    if (found->recorded == 0) return fail(ACL_ERROR_RT_INTERNAL_ERROR, "EE1001", "the event was never recorded");
    if (found->completed < found->recorded) {
        return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1001", "the event has not been reached");
    }
    *timestamp = static_cast<uint64_t>(found->at_us);
    return ACL_SUCCESS;
}

}  // extern "C"
