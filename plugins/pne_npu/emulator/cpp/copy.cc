// aclrtMemcpy, aclrtMemset and their asynchronous forms.
#include <cstring>

#include "acl/acl_rt.h"
#include "device.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"
#include "timeline.h"

using namespace emu;

namespace {

constexpr std::size_t kSampled = 64 * 1024;

enum class Way { host, up, down, across };  // host to host, to the device, from it, on it

struct Ends {
    Span from;
    Span to;
    Way way = Way::host;
};

Way way_of(const Span &from, const Span &to) {
    if (from.is_device()) return to.is_device() ? Way::across : Way::down;
    return to.is_device() ? Way::up : Way::host;
}

// Whether a kind is accepted for where the two ends really are (6.7).
bool accepts(const Ends &ends, int kind) {
    const bool pageable_from = ends.from.block == nullptr;
    const bool pageable_to = ends.to.block == nullptr;
    if (!pageable_from && !pageable_to) return kind >= ACL_MEMCPY_HOST_TO_HOST && kind <= ACL_MEMCPY_DEFAULT;
    if (kind == ACL_MEMCPY_DEFAULT) return true;
    switch (ends.way) {
        case Way::up: return kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        case Way::down: return kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        default: break;
    }
    if (pageable_from && pageable_to) return kind >= ACL_MEMCPY_HOST_TO_HOST && kind <= ACL_MEMCPY_DEVICE_TO_DEVICE;
    if (pageable_to) return kind == ACL_MEMCPY_HOST_TO_HOST || kind == ACL_MEMCPY_HOST_TO_DEVICE;
    return kind == ACL_MEMCPY_HOST_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_HOST;
}

int nominal(Way way) {
    switch (way) {
        case Way::up: return ACL_MEMCPY_HOST_TO_DEVICE;
        case Way::down: return ACL_MEMCPY_DEVICE_TO_HOST;
        case Way::across: return ACL_MEMCPY_DEVICE_TO_DEVICE;
        default: return ACL_MEMCPY_HOST_TO_HOST;
    }
}

std::string side(const Span &span) {
    return span.block == nullptr ? "pageable host memory" : span.is_device() ? "device memory" : "pinned host memory";
}

// What a kind asks against what the pointers are: a host pointer in place of a device pointer is the usual mistake.
int check_direction(const Ends &ends, int kind) {
    const std::string sides = "a copy of kind " + std::to_string(kind) + " from " + side(ends.from) + " to "
            + side(ends.to);
    if (!accepts(ends, kind)) return misuse(ACL_ERROR_RT_PARAM_INVALID, "wrong-direction", sides);
    if (kind == ACL_MEMCPY_DEFAULT || kind == nominal(ends.way) || settings().on_device) return 0;
    if (settings().mode == Mode::lenient) return 0;
    const bool wants_device = kind != ACL_MEMCPY_HOST_TO_HOST;
    if (ends.way == Way::host && wants_device) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "host-pointer", sides
                + ": a host pointer is given as a device pointer");
    }
    caution("wrong-direction", sides + "; drivers correct this silently");
    return 0;
}

int check_owner(const Span &span) {
    if (!span.is_device()) return 0;
    const ContextPtr context = current_context();
    if (context == nullptr || context->device == span.block->device || settings().mode == Mode::lenient) return 0;
    return misuse(ACL_ERROR_RT_PARAM_INVALID, "wrong-device", "a block of device "
            + std::to_string(span.block->device) +
                  " is used in a context of device " + std::to_string(context->device), &span.block->made, "allocated");
}

int resolve(void *dst, std::size_t room, const void *src, std::size_t count, int kind, Ends &ends) {
    ACL_NOT_NULL(dst);
    ACL_NOT_NULL(src);
    if (count > room) {
        return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "count " + std::to_string(count) + " is above destMax " +
                    std::to_string(room));
    }
    int code = 0;
    ends.from = memory::span(src, count, "src", code);
    if (code == 0) ends.to = memory::span(dst, count, "dst", code);
    if (code != 0) return code;
    ends.way = way_of(ends.from, ends.to);
    if ((code = check_direction(ends, kind)) != 0) return code;
    if ((code = check_owner(ends.from)) != 0) return code;
    return check_owner(ends.to);
}

void count_bytes(Way way, std::size_t size) {
    auto &all = timeline::counters();
    if (way == Way::up) all.host_to_device += size;
    if (way == Way::down) all.device_to_host += size;
    if (way == Way::across) all.device_to_device += size;
}

const char *label(Way way) {
    return way == Way::up ? "H2D" : way == Way::down ? "D2H" : way == Way::across ? "D2D" : "H2H";
}

// A number that changes if the bytes do; of long stretches only samples are read.
std::uint64_t fingerprint(const char *data, std::size_t size) {
    std::uint64_t sum = 1469598103934665603ULL;
    const std::size_t step = size <= kSampled ? 1 : size / 1024;
    for (std::size_t i = 0; i < size; i += step) {
        sum = (sum ^ static_cast<unsigned char>(data[i])) * 1099511628211ULL;
    }
    return sum;
}

int copy_now(const Ends &ends, std::size_t count) {
    if (ends.from.data != ends.to.data) std::memmove(ends.to.data, ends.from.data, count);
    count_bytes(ends.way, count);
    return 0;
}

bool aligned(const void *address) { return reinterpret_cast<std::uintptr_t>(address) % 64 == 0; }

bool idle(const Span &span) { return span.block != nullptr && span.block->pending == 0; }

Task copy_task(const Ends &ends, std::size_t count) {
    Task task;
    task.kind = "memcpy";
    task.label = label(ends.way);
    task.bytes = count;
    task.made = trail();
    for (const Span *span : {&ends.from, &ends.to}) {
        if (span->block != nullptr) task.uses.push_back(span->block);
    }
    const bool watched = settings().mode != Mode::lenient && !ends.from.is_device() && idle(ends.from);
    const std::uint64_t sum = watched ? fingerprint(ends.from.data, count) : 0;
    const Trail made = task.made;
    task.run = [ends, count, watched, sum, made] {
        if (watched && fingerprint(ends.from.data, count) != sum) {
            return task_misuse(ACL_ERROR_RT_DEVICE_MEM_ERROR, "changed-in-flight",
                               "the host changed the source of a copy before the copy ran", made);
        }
        return copy_now(ends, count);
    };
    return task;
}

}  // namespace

extern "C" {

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind) {
    ACL_CALL(aclrtMemcpy);
    if (count == 0) return ACL_SUCCESS;
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "kind " + std::to_string(kind) + " is not for aclrtMemcpy");
    }
    ACL_CONTEXT(context);
    if (is_lost(context->device)) return fail(ACL_ERROR_RT_LOST_HEARTBEAT, "EE9999", "the device is lost");
    Ends ends;
    const int wanted = kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE ? ACL_MEMCPY_HOST_TO_DEVICE : kind;
    if (const int code = resolve(dst, destMax, src, count, wanted, ends); code != 0) return code;
    return copy_now(ends, count);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
    ACL_CALL(aclrtMemcpyAsync);
    if (count == 0) return ACL_SUCCESS;
    int code = 0;
    const StreamPtr target = stream_of(stream, true, code);
    if (target == nullptr) return code;
    const int wanted = kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE ? ACL_MEMCPY_HOST_TO_DEVICE
                       : kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE ? ACL_MEMCPY_DEVICE_TO_DEVICE : kind;
    Ends ends;
    if ((code = resolve(dst, destMax, src, count, wanted, ends)) != 0) return code;
    if (ends.way == Way::host && !settings().on_device) {
        return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001",
                "asynchronous copies from host to host are not supported");
    }
    if (ends.from.block == nullptr || ends.to.block == nullptr) {
        caution("pageable-async",
                "an asynchronous copy with pageable host memory waits for its stream; use aclrtMallocHost");
        code = synchronize(target, -1, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        return code != 0 ? code : copy_now(ends, count);
    }
    if (!aligned(src) || !aligned(dst)) {
        caution("unaligned-async",
                "an asynchronous copy has an end that is not at a multiple of 64, which old drivers want");
    }
    Task task = copy_task(ends, count);
    if (settings().mode != Mode::lenient && ends.way != Way::host && idle(ends.to)) memory::poison(ends.to.data, count);
    return submit(target, std::move(task));
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
    ACL_CALL(aclrtMemcpy2d);
    if (width > dpitch || width > spitch) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "width is above a pitch");
    for (std::size_t row = 0; row < height; ++row) {
        const int code = aclrtMemcpy(static_cast<char *>(dst) + row * dpitch, dpitch,
                                     static_cast<const char *>(src) + row * spitch, width, kind);
        if (code != ACL_SUCCESS) return code;
    }
    return ACL_SUCCESS;
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
    ACL_CALL(aclrtMemcpy2dAsync);
    if (width > dpitch || width > spitch) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "width is above a pitch");
    for (std::size_t row = 0; row < height; ++row) {
        const int code = aclrtMemcpyAsync(static_cast<char *>(dst) + row * dpitch, dpitch,
                                          static_cast<const char *>(src) + row * spitch, width, kind, stream);
        if (code != ACL_SUCCESS) return code;
    }
    return ACL_SUCCESS;
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
    ACL_CALL(aclrtMemset);
    if (count == 0) return ACL_SUCCESS;
    ACL_NOT_NULL(devPtr);
    ACL_CONTEXT(context);
    if (count > maxCount) return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "count is above maxCount");
    int code = 0;
    const Span target = memory::span(devPtr, count, "devPtr", code);
    if (code == 0 && target.block == nullptr) {
        code = misuse(ACL_ERROR_RT_PARAM_INVALID, "host-pointer", "aclrtMemset of pageable host memory");
    }
    if (code == 0) std::memset(target.data, value, count);
    return code;
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    ACL_CALL(aclrtMemsetAsync);
    if (count == 0) return ACL_SUCCESS;
    ACL_NOT_NULL(devPtr);
    if (count > maxCount) return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "count is above maxCount");
    int code = 0;
    const StreamPtr target = stream_of(stream, true, code);
    if (target == nullptr) return code;
    const Span found = memory::span(devPtr, count, "devPtr", code);
    if (code != 0) return code;
    if (found.block == nullptr) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "host-pointer", "aclrtMemsetAsync of pageable host memory");
    }
    Task task;
    task.kind = "memset";
    task.bytes = count;
    task.uses = {found.block};
    task.run = [found, value, count] {
        std::memset(found.data, value, count);
        return 0;
    };
    return submit(target, std::move(task));
}

}  // extern "C"
