// aclrtMalloc and its kin.
#include <cstring>

#include "acl/acl_rt.h"
#include "device.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"

using namespace emu;

namespace {

constexpr std::size_t kSpare = 32;

int allocate(void **target, std::size_t size, std::size_t spare) {
    if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size of an allocation is 0");
    ACL_CONTEXT(context);
    if (is_lost(context->device)) return fail(ACL_ERROR_RT_LOST_HEARTBEAT, "EE9999", "the device is lost");
    const BlockPtr block = memory::take_device(context->device, size, spare);
    if (block == nullptr) {
        return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004",
                    "device " + std::to_string(context->device) + " cannot give " + std::to_string(size) + " bytes: " +
                        std::to_string(memory::used(context->device)) + " of " + std::to_string(settings().memory) +
                        " are taken");
    }
    *target = block->address;
    return ACL_SUCCESS;
}

int free_block(void *address, bool on_device) {
    if (!any_device_open() && memory::find(address) == nullptr) {
        return fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1001", "memory is freed before any device was opened");
    }
    const BlockPtr block = memory::find(address);
    if (block == nullptr || block->place == Place::registered) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "foreign-free", hex(address)
                + " was never allocated by this library");
    }
    if (block->freed) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "double-free", hex(address) + " has been freed before", &block->ended,
                      "freed");
    }
    if (block->address != address) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "interior-free", hex(address) + " is not the start of its block",
                      &block->made, "allocated");
    }
    if ((block->place == Place::device) != on_device) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "wrong-free",
                      on_device ? "aclrtFree of pinned host memory" : "aclrtFreeHost of device memory", &block->made,
                      "allocated");
    }
    memory::release(block);
    return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ACL_CALL(aclrtMalloc);
    ACL_NOT_NULL(devPtr);
    const bool giant = policy == ACL_MEM_MALLOC_HUGE1G_ONLY || policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
    return allocate(devPtr, size, giant ? 0 : kSpare);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ACL_CALL(aclrtMallocAlign32);
    ACL_NOT_NULL(devPtr);
    static_cast<void>(policy);
    return allocate(devPtr, size, 0);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    ACL_CALL(aclrtMallocCached);
    ACL_NOT_NULL(devPtr);
    static_cast<void>(policy);
    return allocate(devPtr, size, kSpare);
}

aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg) {
    ACL_CALL(aclrtMallocWithCfg);
    ACL_NOT_NULL(devPtr);
    static_cast<void>(policy);
    static_cast<void>(cfg);
    return allocate(devPtr, size, kSpare);
}

aclError aclrtFree(void *devPtr) {
    ACL_CALL(aclrtFree);
    ACL_NOT_NULL(devPtr);
    return free_block(devPtr, true);
}

aclError aclrtFreeWithDevSync(void *devPtr) {
    ACL_CALL(aclrtFreeWithDevSync);
    ACL_NOT_NULL(devPtr);
    const int code = aclrtSynchronizeDevice();
    return code != ACL_SUCCESS ? code : free_block(devPtr, true);
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
    ACL_CALL(aclrtMallocHost);
    ACL_NOT_NULL(hostPtr);
    if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "size of an allocation is 0");
    ACL_CONTEXT(context);
    const BlockPtr block = memory::take_pinned(size);
    if (block == nullptr) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004", "no host memory is left");
    *hostPtr = block->address;
    return ACL_SUCCESS;
}

aclError aclrtFreeHost(void *hostPtr) {
    ACL_CALL(aclrtFreeHost);
    ACL_NOT_NULL(hostPtr);
    return free_block(hostPtr, false);
}

aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr) {
    ACL_CALL(aclrtHostRegister);
    ACL_NOT_NULL(ptr);
    ACL_NOT_NULL(devPtr);
    ACL_CONTEXT(context);
    if (type != ACL_HOST_REGISTER_MAPPED) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1001",
            "only MAPPED is supported");
    if (memory::find(ptr) != nullptr) return fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "EE1001",
            "registered already");
    *devPtr = memory::register_host(ptr, size)->address;
    return ACL_SUCCESS;
}

aclError aclrtHostUnregister(void *ptr) {
    ACL_CALL(aclrtHostUnregister);
    ACL_NOT_NULL(ptr);
    const BlockPtr block = memory::find(ptr);
    if (block == nullptr || block->place != Place::registered || block->address != ptr) {
        return misuse(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "foreign-free", hex(ptr) + " is not registered");
    }
    memory::release(block);
    return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total) {
    ACL_CALL(aclrtGetMemInfo);
    ACL_NOT_NULL(free);
    ACL_NOT_NULL(total);
    ACL_CONTEXT(context);
    if (attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G) {
        return fail(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "EE1001", "unknown kind of memory " + std::to_string(attr));
    }
    *total = settings().memory;
    *free = settings().memory - memory::used(context->device);
    return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes) {
    ACL_CALL(aclrtPointerGetAttributes);
    ACL_NOT_NULL(ptr);
    ACL_NOT_NULL(attributes);
    std::memset(attributes, 0, sizeof *attributes);
    attributes->pageSize = 4096;
    const BlockPtr block = memory::find(ptr);
    if (block == nullptr || block->freed) {
        attributes->location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED;
    } else if (block->place == Place::device) {
        attributes->location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
        attributes->location.id = static_cast<uint32_t>(block->device);
    } else {
        attributes->location.type = ACL_MEM_LOCATION_TYPE_HOST;
    }
    return ACL_SUCCESS;
}

}  // extern "C"
