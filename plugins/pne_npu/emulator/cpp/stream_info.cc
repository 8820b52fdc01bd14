// What streams say of themselves, and how they end early.
#include "acl/acl_rt.h"
#include "stream.h"

using namespace emu;

extern "C" {

aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId) {
    ACL_CALL(aclrtStreamGetId);
    ACL_NOT_NULL(streamId);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found != nullptr) *streamId = static_cast<int32_t>(found->id);
    return code;
}

aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority) {
    ACL_CALL(aclrtStreamGetPriority);
    ACL_NOT_NULL(priority);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found != nullptr) *priority = found->priority;
    return code;
}

aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags) {
    ACL_CALL(aclrtStreamGetFlags);
    ACL_NOT_NULL(flags);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found != nullptr) *flags = found->flags;
    return code;
}

aclError aclrtStreamAbort(aclrtStream stream) {
    ACL_CALL(aclrtStreamAbort);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found == nullptr) return code;
    const std::lock_guard<std::mutex> lock(found->mutex);
    for (Task &task : found->tasks) {
        for (const BlockPtr &block : task.uses) --block->pending;
    }
    found->completed += found->tasks.size();
    found->tasks.clear();
    found->aborted = found->busy || found->completed < found->submitted;
    found->done.notify_all();
    return ACL_SUCCESS;
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    ACL_CALL(aclrtSetStreamFailureMode);
    ACL_NOT_NULL(stream);
    int code = 0;
    const StreamPtr found = stream_of(stream, false, code);
    if (found == nullptr) return code;
    const std::lock_guard<std::mutex> lock(found->mutex);
    if (mode > ACL_STOP_ON_FAILURE || found->failure_mode_set) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the failure mode is 0 or 1 and can be set once");
    }
    found->failure_mode_set = true;
    found->stops_on_failure = mode == ACL_STOP_ON_FAILURE;
    return ACL_SUCCESS;
}

aclError aclrtGetStreamAvailableNum(uint32_t *streamCount) {
    ACL_CALL(aclrtGetStreamAvailableNum);
    ACL_NOT_NULL(streamCount);
    ACL_CONTEXT(context);
    *streamCount = kMostStreams - stream_count(context->device);
    return ACL_SUCCESS;
}

}  // extern "C"
