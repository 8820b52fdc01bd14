// acltdt's queues: making them, and messages in and out, as data or as buffers.
#include <cstring>

#include "acl/acl_tdt_queue.h"
#include "device.h"
#include "queue.h"
#include "queue_parts.h"
#include "settings.h"
#include "timeline.h"

using namespace emu;
using queues::Waited;

namespace {

constexpr std::size_t kLongestName = 127;
constexpr std::uint32_t kLeastDepth = 2;

int gone(std::uint32_t id) {
    const int code = queues::check(id);
    return code != 0 ? code : fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the queue went while somebody waited for it");
}

// -1 waits without limit; 0 is for programs on the chip.
int check_timeout(std::int32_t timeout) {
    if (timeout > 0 || timeout == -1 || (timeout == 0 && settings().on_device)) return 0;
    return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "timeout " + std::to_string(timeout) + " is neither -1 nor above 0");
}

int check_user(const void *data, std::size_t size) {
    if (size > kUserBytes || (data == nullptr && size > 0)) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "user data is NULL, or of more than 96 bytes");
    }
    return 0;
}

// What a program names as its own memory; on a host that is never the device's.
int own_memory(const void *data, std::size_t size, const char *what, Span &span) {
    int code = 0;
    span = memory::span(data, size, what, code);
    if (code != 0 || settings().on_device || !span.is_device()) return code;
    return misuse(ACL_ERROR_RT_PARAM_INVALID, "device-pointer", std::string(what) + " is device memory");
}

}  // namespace

extern "C" {

aclError acltdtCreateQueue(const acltdtQueueAttr *attr, uint32_t *qid) {
    ACL_CALL(acltdtCreateQueue);
    ACL_NOT_NULL(qid);
    ACL_CONTEXT(context);
    QueueAttr wanted;
    if (attr != nullptr) {
        const auto found = queue_attrs().find(attr);
        if (found == nullptr) return misuse(ACL_ERROR_INVALID_PARAM, "foreign-handle", "the attributes do not live");
        wanted = *found;
    }
    if (wanted.name.size() > kLongestName) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the name of a queue has at most 127 characters");
    }
    if (wanted.depth < kLeastDepth) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the depth of a queue is at least 2");
    return queues::create(wanted.name, wanted.depth, context->device, *qid);
}

aclError acltdtDestroyQueue(uint32_t qid) {
    ACL_CALL(acltdtDestroyQueue);
    return queues::destroy(qid);
}

aclError acltdtEnqueue(uint32_t qid, acltdtBuf buf, int32_t timeout) {
    ACL_CALL(acltdtEnqueue);
    if (!settings().on_device) return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "EH0001", "buffers are for programs on the chip");
    ACL_NOT_NULL(buf);
    int code = 0;
    const MessagePtr message = message_of(buf, code);
    if (message == nullptr) return code;
    if (message->is_member) return misuse(ACL_ERROR_RT_PARAM_INVALID, "member-enqueue", "a member goes with its head");
    switch (queues::put(qid, message, timeout)) {
        case Waited::done: return ACL_SUCCESS;
        case Waited::expired: return fail(ACL_ERROR_FAILURE, "EH0001", "the queue stayed full");
        default: return gone(qid);
    }
}

aclError acltdtDequeue(uint32_t qid, acltdtBuf *buf, int32_t timeout) {
    ACL_CALL(acltdtDequeue);
    if (!settings().on_device) return fail(ACL_ERROR_FEATURE_UNSUPPORTED, "EH0001", "buffers are for programs on the chip");
    ACL_NOT_NULL(buf);
    MessagePtr message;
    switch (queues::take(qid, message, timeout)) {
        case Waited::done: *buf = handle_of(message); return ACL_SUCCESS;
        case Waited::expired: return fail(ACL_ERROR_FAILURE, "EH0001", "the queue stayed empty");
        default: return gone(qid);
    }
}

aclError acltdtEnqueueData(uint32_t qid, const void *data, size_t dataSize, const void *userData, size_t userDataSize,
                           int32_t timeout, uint32_t rsv) {
    ACL_CALL(acltdtEnqueueData);
    static_cast<void>(rsv);
    ACL_NOT_NULL(data);
    if (dataSize == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "dataSize is 0");
    int code = check_timeout(timeout);
    if (code == 0) code = check_user(userData, userDataSize);
    if (code == 0) code = queues::check(qid);
    Span span;
    if (code == 0) code = own_memory(data, dataSize, "data", span);
    if (code != 0) return code;
    const MessagePtr message = make_message(queues::device_of(qid), dataSize);
    if (message == nullptr) {
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE1001", "the device has no memory for the message");
    }
    std::memcpy(message->area->block->data, span.data, dataSize);
    message->length = dataSize;
    if (userDataSize > 0) std::memcpy(message->user.data(), userData, userDataSize);
    switch (queues::put(qid, message, timeout)) {
        case Waited::done: timeline::counters().host_to_device += dataSize; return ACL_SUCCESS;
        case Waited::expired: return fail(ACL_ERROR_RT_QUEUE_FULL, "EE1001", "the queue stayed full");
        default: return gone(qid);
    }
}

aclError acltdtDequeueData(uint32_t qid, void *data, size_t dataSize, size_t *retDataSize, void *userData,
                           size_t userDataSize, int32_t timeout) {
    ACL_CALL(acltdtDequeueData);
    ACL_NOT_NULL(data);
    ACL_NOT_NULL(retDataSize);
    if (dataSize == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "dataSize is 0");
    int code = check_timeout(timeout);
    if (code == 0) code = check_user(userData, userDataSize);
    if (code == 0) code = queues::check(qid);
    Span span;
    if (code == 0) code = own_memory(data, dataSize, "data", span);
    if (code != 0) return code;
    MessagePtr message;
    std::size_t needed = 0;
    const auto fits = [&](const Message &first) {
        needed = first.length;
        return needed <= dataSize;
    };
    switch (queues::take(qid, message, timeout, fits)) {
        case Waited::expired: return fail(ACL_ERROR_RT_QUEUE_EMPTY, "EE1001", "the queue stayed empty");
        case Waited::gone: return gone(qid);
        default: break;
    }
    *retDataSize = needed;
    if (message == nullptr) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the message has " + std::to_string(needed) + " bytes, data has "
                + std::to_string(dataSize));
    }
    std::memcpy(span.data, message->area->block->data, needed);
    if (userDataSize > 0) std::memcpy(userData, message->user.data(), userDataSize);
    timeline::counters().device_to_host += needed;
    drop_handles(message);
    return ACL_SUCCESS;
}

}  // extern "C"
