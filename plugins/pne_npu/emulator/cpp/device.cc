#include "device.h"

#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "acl/acl_rt.h"
#include "memory.h"
#include "settings.h"
#include "stream.h"

namespace emu {
namespace {

struct Device {
    int references = 0;
    bool was_forced = false;
    std::shared_ptr<Context> context;
    std::atomic<bool> lost{false};
};

struct Devices {
    std::mutex mutex;
    std::map<int, Device> all;
};

Devices &devices() {
    static Devices &made = *new Devices;
    return made;
}

thread_local ContextPtr current;

// The device ids a list names, as far as it is well formed; none at all if it is out of order.
std::vector<int> visible(const std::string &list) {
    std::vector<int> found;
    std::istringstream items(list);
    for (std::string item; std::getline(items, item, ',');) {
        char *end = nullptr;
        const long id = std::strtol(item.c_str(), &end, 10);
        if (item.empty() || *end != '\0' || id < 0 || id >= static_cast<long>(settings().devices)) break;
        if (!found.empty() && id <= found.back()) return {};
        found.push_back(static_cast<int>(id));
    }
    return found;
}

ContextPtr make_context(int device, bool is_default) {
    auto context = std::make_shared<Context>();
    context->device = device;
    context->is_default = is_default;
    context->made = trail();
    context->handle = contexts().add(context);
    make_stream(context, 0, 0, true);
    return context;
}

void end_context(const ContextPtr &context, bool forced) {
    context->alive = false;
    end_streams(context, forced);
    contexts().remove(context->handle);
}

int reset(int device, bool forced) {
    if (!device_exists(device)) return bad_device(device);
    ContextPtr context;
    {
        const std::lock_guard<std::mutex> lock(devices().mutex);
        Device &found = devices().all[device];
        if (found.references == 0) {
            return fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "EE1001",
                        "device " + std::to_string(device) + " was reset more often than set");
        }
        found.references = forced ? 0 : found.references - 1;
        if (found.references > 0) return ACL_SUCCESS;
        context = std::move(found.context);
    }
    for (const auto &[handle, other] : contexts().all()) {
        if (other->device == device && !other->is_default && !forced) {
            note("leak", "a context of device " + std::to_string(device) + " was not destroyed before the reset",
                 &other->made);
        }
        if (other->device == device && other != context) end_context(other, forced);
    }
    end_context(context, forced);
    memory::drop_device(device);
    const std::lock_guard<std::mutex> lock(devices().mutex);
    devices().all[device].lost = false;
    return ACL_SUCCESS;
}

}  // namespace

int bad_device(int device) {
    return fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1001", "device id " + std::to_string(device)
            + " is out of range: there are " +
                std::to_string(device_count()) + " devices");
}

Table<Context> &contexts() {
    static Table<Context> &made = *new Table<Context>(Tag::context);
    return made;
}

unsigned device_count() {
    static const unsigned count = [] {
        const char *list = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
        return list == nullptr ? settings().devices : static_cast<unsigned>(visible(list).size());
    }();
    return count;
}

bool device_exists(int device) { return device >= 0 && static_cast<unsigned>(device) < device_count(); }

ContextPtr current_context() { return current != nullptr && current->alive ? current : nullptr; }

bool is_lost(int device) {
    const std::lock_guard<std::mutex> lock(devices().mutex);
    return devices().all[device].lost;
}

void lose_device(int device) {
    const std::lock_guard<std::mutex> lock(devices().mutex);
    devices().all[device].lost = true;
}

void lose_current_device() {
    const ContextPtr context = current_context();
    lose_device(context == nullptr ? 0 : context->device);
}

bool any_device_open() {
    const std::lock_guard<std::mutex> lock(devices().mutex);
    for (const auto &[id, device] : devices().all) {
        if (device.references > 0) return true;
    }
    return false;
}

void close_devices() {
    for (unsigned id = 0; id < device_count(); ++id) {
        bool open = false;
        {
            const std::lock_guard<std::mutex> lock(devices().mutex);
            open = devices().all[static_cast<int>(id)].references > 0;
        }
        if (!open) continue;
        note("leak", "device " + std::to_string(id) + " was not reset before aclFinalize");
        reset(static_cast<int>(id), true);
    }
}

}  // namespace emu

using namespace emu;

extern "C" {

aclError aclrtSetDevice(int32_t deviceId) {
    ACL_CALL(aclrtSetDevice);
    if (device_count() == 0) return fail(ACL_ERROR_RT_NO_DEVICE, "EE1001", "there is no device");
    if (!device_exists(deviceId)) return bad_device(deviceId);
    watch_host_accesses();
    const std::lock_guard<std::mutex> lock(devices().mutex);
    Device &device = devices().all[deviceId];
    if (device.references++ == 0) device.context = make_context(deviceId, true);
    current = device.context;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId) {
    ACL_CALL(aclrtResetDevice);
    return reset(deviceId, false);
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
    ACL_CALL(aclrtResetDeviceForce);
    return reset(deviceId, true);
}

aclError aclrtGetDevice(int32_t *deviceId) {
    ACL_CALL(aclrtGetDevice);
    ACL_NOT_NULL(deviceId);
    ACL_CONTEXT(context);
    *deviceId = context->device;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count) {
    ACL_CALL(aclrtGetDeviceCount);
    ACL_NOT_NULL(count);
    if (device_count() == 0) return fail(ACL_ERROR_RT_NO_DEVICE, "EE1001", "there is no device");
    *count = device_count();
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode) {
    ACL_CALL(aclrtGetRunMode);
    ACL_NOT_NULL(runMode);
    *runMode = settings().on_device ? ACL_DEVICE : ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
    ACL_CALL(aclrtCreateContext);
    ACL_NOT_NULL(context);
    if (!device_exists(deviceId)) return bad_device(deviceId);
    {
        const std::lock_guard<std::mutex> lock(devices().mutex);
        Device &device = devices().all[deviceId];
        if (device.references == 0) {
            device.references = 1;
            device.context = make_context(deviceId, true);
        }
    }
    watch_host_accesses();
    current = make_context(deviceId, false);
    *context = current->handle;
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context) {
    ACL_CALL(aclrtDestroyContext);
    ACL_NOT_NULL(context);
    const ContextPtr found = contexts().find(context);
    if (found == nullptr) {
        const char *kind = contexts().was(context) ? "destroyed-twice" : "foreign-handle";
        return misuse(ACL_ERROR_RT_CONTEXT_NULL, kind, "context " + hex(context) + " does not live");
    }
    if (found->is_default) {
        return misuse(ACL_ERROR_RT_CONTEXT_NULL, "default-context", "a device's default context goes with its reset");
    }
    end_context(found, false);
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    ACL_CALL(aclrtSetCurrentContext);
    ACL_NOT_NULL(context);
    const ContextPtr found = contexts().find(context);
    if (found == nullptr) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "use-after-destroy", "context " + hex(context) + " does not live");
    }
    current = found;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
    ACL_CALL(aclrtGetCurrentContext);
    ACL_NOT_NULL(context);
    ACL_CONTEXT(found);
    *context = found->handle;
    return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream) {
    ACL_CALL(aclrtCtxGetCurrentDefaultStream);
    ACL_NOT_NULL(stream);
    ACL_CONTEXT(context);
    *stream = context->stream_handle;
    return ACL_SUCCESS;
}

}  // extern "C"
