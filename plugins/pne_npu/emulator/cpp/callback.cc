// Callbacks in streams: run by the thread that is subscribed, inside aclrtProcessReport and nowhere else.
#include <pthread.h>

#include <chrono>
#include <map>
#include <set>

#include "acl/acl_rt.h"
#include "settings.h"
#include "stream.h"

namespace emu {

struct Report {
    aclrtCallback function = nullptr;
    void *data = nullptr;
    std::shared_ptr<Stream> stream;
    std::shared_ptr<bool> done;
};

struct Poller {
    std::uint64_t thread = 0;
    int device = 0;
    std::set<Stream *> streams;
    std::deque<Report> reports;
    std::condition_variable arrived;  // something to run
    std::condition_variable ran;      // something has run
    std::mutex mutex;
};

}  // namespace emu

using namespace emu;

namespace {

struct Pollers {
    std::mutex mutex;
    std::map<std::uint64_t, std::shared_ptr<Poller>> all;
};

Pollers &pollers() {
    static Pollers &made = *new Pollers;
    return made;
}

// Hand a callback to its thread; if it blocks, wait until it has run.
int deliver(const std::shared_ptr<Poller> &poller, Report report, bool blocks) {
    Stream *stream = report.stream.get();
    const std::shared_ptr<bool> done = report.done;
    std::unique_lock<std::mutex> lock(poller->mutex);
    poller->reports.push_back(std::move(report));
    poller->arrived.notify_all();
    if (!blocks) return 0;
    const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(settings().watchdog_ms);
    bool told = false;
    while (!*done) {
        if (stream->dropped) return ACL_ERROR_RT_STREAM_ABORT;
        if (!told && std::chrono::steady_clock::now() > late) {
            note("no-poller", "a blocking callback waits, and no thread is in aclrtProcessReport for its stream");
            told = true;
        }
        poller->ran.wait_for(lock, std::chrono::milliseconds(20));
    }
    return 0;
}

std::shared_ptr<Poller> poller_of(std::uint64_t thread) {
    const std::lock_guard<std::mutex> lock(pollers().mutex);
    const auto found = pollers().all.find(thread);
    return found == pollers().all.end() ? nullptr : found->second;
}

}  // namespace

extern "C" {

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
    ACL_CALL(aclrtSubscribeReport);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found == nullptr) return code;
    const std::lock_guard<std::mutex> lock(pollers().mutex);
    if (found->poller != nullptr) {
        return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "EE1001", "the stream has a thread that serves it");
    }
    std::shared_ptr<Poller> &poller = pollers().all[threadId];
    if (poller == nullptr) {
        poller = std::make_shared<Poller>();
        poller->thread = threadId;
        poller->device = found->device;
    }
    if (poller->device != found->device) {
        return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "EE1001", "the thread serves streams of another device");
    }
    const std::lock_guard<std::mutex> inner(poller->mutex);
    poller->streams.insert(found.get());
    found->poller = poller;
    return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
    ACL_CALL(aclrtUnSubscribeReport);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found == nullptr) return code;
    const std::lock_guard<std::mutex> lock(pollers().mutex);
    if (found->poller == nullptr) return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "EE1001", "no thread serves the stream");
    if (found->poller->thread != threadId) {
        return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "EE1001", "another thread serves the stream");
    }
    const std::shared_ptr<Poller> poller = std::move(found->poller);
    found->poller = nullptr;
    const std::lock_guard<std::mutex> inner(poller->mutex);
    poller->streams.erase(found.get());
    if (poller->streams.empty()) pollers().all.erase(threadId);
    return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
    ACL_CALL(aclrtLaunchCallback);
    if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "blockType is neither 0 nor 1");
    }
    if (fn == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the callback is NULL");
    int code = 0;
    const StreamPtr found = stream_of(stream, true, code);
    if (found == nullptr) return code;
    if (found->has_host_functions) return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "EE1001",
            "the stream has host functions");
    std::shared_ptr<Poller> poller;
    {
        const std::lock_guard<std::mutex> lock(pollers().mutex);
        poller = found->poller;
    }
    if (poller == nullptr) return fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "EE1001", "no thread serves the stream");
    found->has_callbacks = true;
    Task task;
    task.kind = "callback";
    task.own_thread = true;
    const bool blocks = blockType == ACL_CALLBACK_BLOCK;
    const std::weak_ptr<Stream> own = found;
    task.run = [poller, fn, userData, own, blocks] {
        StreamPtr stream = own.lock();
        return stream == nullptr ? 0 : deliver(poller, Report{fn, userData, stream, std::make_shared<bool>(false)},
                blocks);
    };
    return submit(found, std::move(task));
}

aclError aclrtProcessReport(int32_t timeout) {
    ACL_CALL(aclrtProcessReport);
    if (timeout != -1 && timeout <= 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001",
            "the timeout is neither -1 nor above 0");
    const std::shared_ptr<Poller> poller = poller_of(static_cast<std::uint64_t>(pthread_self()));
    if (poller == nullptr) return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "EE1001", "this thread serves no stream");
    std::unique_lock<std::mutex> lock(poller->mutex);
    const auto any = [&] { return !poller->reports.empty(); };
    if (timeout < 0) {
        poller->arrived.wait(lock, any);
    } else if (!poller->arrived.wait_for(lock, std::chrono::milliseconds(timeout), any)) {
        return fail(ACL_ERROR_RT_REPORT_TIMEOUT, "EE1002", "no callback arrived");
    }
    while (any()) {
        const Report report = std::move(poller->reports.front());
        poller->reports.pop_front();
        lock.unlock();
        set_callback_stream(report.stream.get());
        report.function(report.data);
        set_callback_stream(nullptr);
        lock.lock();
        *report.done = true;
        poller->ran.notify_all();
    }
    return ACL_SUCCESS;
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args) {
    ACL_CALL(aclrtLaunchHostFunc);
    if (fn == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the function is NULL");
    int code = 0;
    const StreamPtr found = stream_of(stream, true, code);
    if (found == nullptr) return code;
    if (found->has_callbacks) return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "EE1001",
            "the stream has callbacks of a thread");
    found->has_host_functions = true;
    Task task;
    task.kind = "callback";
    task.own_thread = true;
    Stream *own = found.get();
    task.run = [own, fn, args] {
        set_callback_stream(own);
        fn(args);
        set_callback_stream(nullptr);
        return 0;
    };
    return submit(found, std::move(task));
}

}  // extern "C"
