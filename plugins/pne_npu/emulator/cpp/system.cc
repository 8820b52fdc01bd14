// aclInit, aclFinalize, versions, and what is told at the end.
#include "system.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "acl/acl_mdl.h"
#include "device.h"
#include "json.h"
#include "memory.h"
#include "model.h"
#include "queue.h"
#include "settings.h"
#include "stream.h"
#include "tensor.h"
#include "timeline.h"

namespace emu {

std::vector<Trail> living_events();
void forget_events();
std::vector<Trail> living_model_descs();
void forget_model_descs();

namespace {

constexpr int kDeepest = 10;

struct State {
    std::mutex mutex;
    std::uint64_t count = 0;
    bool ended = false;
    std::string config;
};

State &state() {
    static State &made = *new State;
    return made;
}

template <class T>
void tell_living(const Table<T> &table, const char *what) {
    for (const auto &[handle, value] : table.all()) note("leak", std::string("a ") + what + " was not destroyed",
            &value->made);
}

// Whatever a program should have given back before the end.
void tell_leaks() {
    for (const ModelPtr &model : living_models()) note("leak", "a model was not unloaded", &model->made);
    tell_living(datasets(), "dataset");
    tell_living(data_buffers(), "data buffer");
    for (const auto &[handle, desc] : tensor_descs().all()) {
        if (!desc->borrowed) note("leak", "a tensor desc was not destroyed", &desc->made);
    }
    for (const Trail &made : living_model_descs()) note("leak", "a model desc was not destroyed", &made);
    for (const Trail &made : living_events()) note("leak", "an event was not destroyed", &made);
    for (const Trail &made : queues::living()) note("leak", "a queue was not destroyed", &made);
    for (const Trail &made : living_messages()) note("leak", "a buffer was not freed", &made);
    for (const BlockPtr &block : memory::living()) {
        const char *kind = block->place == Place::device ? "device" : "host";
        note("leak", std::to_string(block->size) + " bytes of " + kind + " memory were not freed", &block->made);
    }
}

int read_config(const char *path, std::string &text) {
    std::ifstream file(path);
    std::ostringstream all;
    if (file) all << file.rdbuf();
    if (!file) return fail(ACL_ERROR_INVALID_FILE, "EH0005", std::string("the file ") + path + " cannot be read");
    text = all.str();
    if (!is_json(text, kDeepest)) {
        return fail(ACL_ERROR_PARSE_FILE, "EH0006", std::string(path) + " is no JSON of at most 10 levels");
    }
    return 0;
}

int end(bool whole, std::uint64_t *rest) {
    const std::lock_guard<std::mutex> lock(state().mutex);
    if (state().count == 0) {
        return state().ended ? fail(ACL_ERROR_REPEAT_FINALIZE, "EH0001", "aclFinalize was called before") : ACL_SUCCESS;
    }
    state().count = whole ? 0 : state().count - 1;
    if (rest != nullptr) *rest = state().count;
    if (state().count > 0) return ACL_SUCCESS;
    tell_leaks();
    forget_models();
    queues::forget();
    forget_messages();
    close_devices();
    forget_model_descs();
    forget_events();
    state().ended = true;
    timeline::write_files();
    return ACL_SUCCESS;
}

}  // namespace

bool is_initialised() {
    const std::lock_guard<std::mutex> lock(state().mutex);
    return state().count > 0;
}

}  // namespace emu

using namespace emu;

extern "C" {

aclError aclInit(const char *configPath) {
    ACL_CALL(aclInit);
    std::string text;
    if (configPath != nullptr) {
        if (const int code = read_config(configPath, text); code != 0) return code;
    }
    const std::lock_guard<std::mutex> lock(state().mutex);
    if (device_count() == 0) return fail(ACL_ERROR_INTERNAL_ERROR, "EH9999",
            "the SoC is unknown, because there is no device");
    if (state().count > 0) {
        if (text != state().config && !text.empty()) {
            return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "aclInit was called before with another configuration");
        }
        ++state().count;
        return fail(ACL_ERROR_REPEAT_INITIALIZE, "EH0001", "aclInit was called before");
    }
    state().count = 1;
    state().ended = false;
    state().config = text;
    set_process_messages(text.find("\"err_msg_mode\"") != std::string::npos && text.find("\"1\"") != std::string::npos);
    return ACL_SUCCESS;
}

aclError aclFinalize(void) {
    ACL_CALL(aclFinalize);
    return end(true, nullptr);
}

aclError aclFinalizeReference(uint64_t *refCount) {
    ACL_CALL(aclFinalizeReference);
    return end(false, refCount);
}

const char *aclGetRecentErrMsg(void) { return take_message(); }

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
    ACL_NAMED(aclrtPeekAtLastError);
    return level == ACL_RT_THREAD_LEVEL ? last_error(false) : fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown level");
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
    ACL_NAMED(aclrtGetLastError);
    return level == ACL_RT_THREAD_LEVEL ? last_error(true) : fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown level");
}

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion) {
    ACL_CALL(aclrtGetVersion);
    ACL_NOT_NULL(majorVersion);
    ACL_NOT_NULL(minorVersion);
    ACL_NOT_NULL(patchVersion);
    *majorVersion = ACL_MAJOR_VERSION;
    *minorVersion = ACL_MINOR_VERSION;
    *patchVersion = ACL_PATCH_VERSION;
    return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version) {
    ACL_CALL(aclsysGetCANNVersion);
    ACL_NOT_NULL(version);
    if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) return fail(ACL_ERROR_INVALID_PARAM, "EH0001",
            "unknown package");
    std::memset(version, 0, sizeof *version);
    std::snprintf(version->version, sizeof version->version, "0.0.0.emulator");
    for (char *part : {version->majorVersion, version->minorVersion, version->releaseVersion,
            version->patchVersion}) part[0] = '0';
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr) {
    ACL_CALL(aclsysGetVersionStr);
    ACL_NOT_NULL(pkgName);
    ACL_NOT_NULL(versionStr);
    std::snprintf(versionStr, ACL_PKG_VERSION_MAX_SIZE, "0.0.0.emulator");
    return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum) {
    ACL_CALL(aclsysGetVersionNum);
    ACL_NOT_NULL(pkgName);
    ACL_NOT_NULL(versionNum);
    *versionNum = 0;
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void) { return device_count() == 0 ? nullptr : settings().soc.c_str(); }

void aclAppLog(aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, fmt);
    std::vsnprintf(text, sizeof text, fmt == nullptr ? "" : fmt, arguments);
    va_end(arguments);
    if (logLevel < ACL_ERROR) return;
    std::fprintf(stderr, "[ERROR] %s:%u %s: %s\n", file == nullptr ? "" : file, line, func == nullptr ? "" : func,
            text);
}

}  // extern "C"
