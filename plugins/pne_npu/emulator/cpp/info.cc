// What devices say about themselves.
#include <cstring>

#include "acl/acl_rt.h"
#include "device.h"
#include "memory.h"
#include "settings.h"

using namespace emu;

namespace {

constexpr std::int64_t kCores = 8;
constexpr std::int64_t kCacheBytes = 8 << 20;
constexpr std::int32_t kLeastPriority = 7;

}  // namespace

extern "C" {

aclError aclrtSetTsDevice(aclrtTsId tsId) {
    ACL_CALL(aclrtSetTsDevice);
    return tsId >= ACL_TS_ID_AICORE && tsId < ACL_TS_ID_RESERVED ? ACL_SUCCESS
                                                                 : fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                                                                         "unknown scheduler");
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus) {
    ACL_CALL(aclrtQueryDeviceStatus);
    ACL_NOT_NULL(deviceStatus);
    if (!device_exists(deviceId)) return bad_device(deviceId);
    *deviceStatus = is_lost(deviceId) ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value) {
    ACL_CALL(aclrtGetDeviceInfo);
    ACL_NOT_NULL(value);
    if (!device_exists(static_cast<int>(deviceId))) return bad_device(static_cast<int>(deviceId));
    switch (attr) {
        case ACL_DEV_ATTR_AICPU_CORE_NUM: case ACL_DEV_ATTR_AICORE_CORE_NUM: case ACL_DEV_ATTR_CUBE_CORE_NUM:
        case ACL_DEV_ATTR_VECTOR_CORE_NUM: *value = kCores; return ACL_SUCCESS;
        case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE: *value = static_cast<int64_t>(settings().memory); return ACL_SUCCESS;
        case ACL_DEV_ATTR_L2_CACHE_SIZE: *value = kCacheBytes; return ACL_SUCCESS;
        case ACL_DEV_ATTR_PHY_CHIP_ID: *value = deviceId; return ACL_SUCCESS;
        case ACL_DEV_ATTR_IS_VIRTUAL: *value = 1; return ACL_SUCCESS;
        default: return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "the emulator has no value for this attribute");
    }
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active) {
    ACL_CALL(aclrtGetPrimaryCtxState);
    ACL_NOT_NULL(active);
    if (!device_exists(deviceId)) return bad_device(deviceId);
    if (flags != nullptr) *flags = 0;
    *active = 0;
    for (const auto &[handle, context] : contexts().all()) {
        if (context->is_default && context->device == deviceId) *active = 1;
    }
    return ACL_SUCCESS;
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority) {
    ACL_CALL(aclrtDeviceGetStreamPriorityRange);
    ACL_NOT_NULL(leastPriority);
    ACL_NOT_NULL(greatestPriority);
    *leastPriority = kLeastPriority;
    *greatestPriority = 0;
    return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
    ACL_CALL(aclrtDeviceCanAccessPeer);
    ACL_NOT_NULL(canAccessPeer);
    if (!device_exists(deviceId)) return bad_device(deviceId);
    if (!device_exists(peerDeviceId)) return bad_device(peerDeviceId);
    *canAccessPeer = 0;
    return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
    ACL_CALL(aclrtDeviceEnablePeerAccess);
    static_cast<void>(flags);
    if (!device_exists(peerDeviceId)) return bad_device(peerDeviceId);
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001", "emulated devices do not reach each other's memory");
}

aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo) {
    ACL_CALL(aclrtGetErrorVerbose);
    ACL_NOT_NULL(errorInfo);
    if (!device_exists(deviceId)) return bad_device(deviceId);
    std::memset(errorInfo, 0, sizeof *errorInfo);
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value) {
    ACL_CALL(aclrtGetDeviceResLimit);
    ACL_NOT_NULL(value);
    if (!device_exists(deviceId)) return bad_device(deviceId);
    if (type > ACL_RT_DEV_RES_VECTOR_CORE) return fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001", "unknown kind of core");
    *value = kCores;
    return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value) {
    ACL_CALL(aclrtGetResInCurrentThread);
    ACL_NOT_NULL(value);
    ACL_CONTEXT(context);
    return aclrtGetDeviceResLimit(context->device, type, value);
}

}  // extern "C"
