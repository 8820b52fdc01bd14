// Handles that collect options for loading and executing models.
#include <cstring>
#include <map>

#include "acl/acl_mdl.h"
#include "model.h"
#include "report.h"
#include "table.h"

namespace emu {

struct Config {
    std::map<int, std::uint64_t> values;  // numbers and pointers
    std::string path;
};

}  // namespace emu

using namespace emu;

namespace {

Table<Config> &configs() {
    static Table<Config> &made = *new Table<Config>(Tag::config);
    return made;
}

Table<Config> &exec_configs() {
    static Table<Config> &made = *new Table<Config>(Tag::exec_config);
    return made;
}

int bad_handle() { return misuse(ACL_ERROR_INVALID_PARAM, "foreign-handle", "the config handle does not live"); }

bool is_number32(int attribute) { return attribute == ACL_MDL_PRIORITY_INT32
        || attribute == ACL_MDL_WITHOUT_GRAPH_INT32; }

int set_value(Config &config, int attribute, const void *value, std::size_t size, std::size_t wanted) {
    if (size != wanted) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the value of attribute " + std::to_string(attribute)
                + " takes " +
                    std::to_string(wanted) + " bytes, got " + std::to_string(size));
    }
    std::uint64_t number = 0;
    std::memcpy(&number, value, size);
    config.values[attribute] = number;
    return ACL_SUCCESS;
}

template <class T>
T pointer(const Config &config, int attribute) {
    const auto found = config.values.find(attribute);
    return found == config.values.end() ? nullptr : reinterpret_cast<T>(found->second);
}

std::size_t number(const Config &config, int attribute) {
    const auto found = config.values.find(attribute);
    return found == config.values.end() ? 0 : static_cast<std::size_t>(found->second);
}

}  // namespace

namespace emu {

int stream_timeout(const aclmdlExecConfigHandle *handle, int &code) {
    const auto config = exec_configs().find(handle);
    code = config == nullptr ? bad_handle() : 0;
    if (code != 0) return -1;
    const auto found = config->values.find(ACL_MDL_STREAM_SYNC_TIMEOUT);
    return found == config->values.end() ? -1 : static_cast<std::int32_t>(found->second);
}

}  // namespace emu

extern "C" {

aclmdlConfigHandle *aclmdlCreateConfigHandle(void) {
    ACL_NAMED(aclmdlCreateConfigHandle);
    return static_cast<aclmdlConfigHandle *>(configs().add(std::make_shared<Config>()));
}

aclError aclmdlDestroyConfigHandle(aclmdlConfigHandle *handle) {
    ACL_CALL(aclmdlDestroyConfigHandle);
    ACL_NOT_NULL(handle);
    return configs().remove(handle) == nullptr ? bad_handle() : ACL_SUCCESS;
}

aclError aclmdlSetConfigOpt(aclmdlConfigHandle *handle, aclmdlConfigAttr attr, const void *attrValue,
        size_t valueSize) {
    ACL_CALL(aclmdlSetConfigOpt);
    ACL_NOT_NULL(handle);
    ACL_NOT_NULL(attrValue);
    const auto config = configs().find(handle);
    if (config == nullptr) return bad_handle();
    if (attr < ACL_MDL_PRIORITY_INT32 || attr > ACL_NPU_PERF_MODE) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown attribute " + std::to_string(attr));
    }
    const int code = set_value(*config, attr, attrValue, valueSize, is_number32(attr) ? 4 : 8);
    if (code == ACL_SUCCESS && attr == ACL_MDL_PATH_PTR) {
        const char *path = pointer<const char *>(*config, attr);
        if (path == nullptr) return null_argument("attrValue");
        config->path = path;
    }
    return code;
}

aclError aclmdlLoadWithConfig(const aclmdlConfigHandle *handle, uint32_t *modelId) {
    ACL_CALL(aclmdlLoadWithConfig);
    ACL_NOT_NULL(handle);
    ACL_NOT_NULL(modelId);
    const auto config = configs().find(handle);
    if (config == nullptr) return bad_handle();
    void *work = pointer<void *>(*config, ACL_MDL_WORKSPACE_ADDR_PTR);
    void *weight = pointer<void *>(*config, ACL_MDL_WEIGHT_ADDR_PTR);
    const std::size_t work_size = number(*config, ACL_MDL_WORKSPACE_SIZET);
    const std::size_t weight_size = number(*config, ACL_MDL_WEIGHT_SIZET);
    const std::size_t kind = number(*config, ACL_MDL_LOAD_TYPE_SIZET);
    const void *model = pointer<const void *>(*config, ACL_MDL_MEM_ADDR_PTR);
    const std::size_t size = number(*config, ACL_MDL_MEM_SIZET);
    if ((kind == ACL_MDL_LOAD_FROM_FILE || kind == ACL_MDL_LOAD_FROM_FILE_WITH_MEM) && !config->path.empty()) {
        return aclmdlLoadFromFileWithMem(config->path.c_str(), modelId, work, work_size, weight, weight_size);
    }
    if ((kind == ACL_MDL_LOAD_FROM_MEM || kind == ACL_MDL_LOAD_FROM_MEM_WITH_MEM) && model != nullptr && size > 0) {
        return aclmdlLoadFromMemWithMem(model, size, modelId, work, work_size, weight, weight_size);
    }
    const auto *inputs = pointer<const std::uint32_t *>(*config, ACL_MDL_INPUTQ_ADDR_PTR);
    const auto *outputs = pointer<const std::uint32_t *>(*config, ACL_MDL_OUTPUTQ_ADDR_PTR);
    const std::size_t input_count = number(*config, ACL_MDL_INPUTQ_NUM_SIZET);
    const std::size_t output_count = number(*config, ACL_MDL_OUTPUTQ_NUM_SIZET);
    if (kind == ACL_MDL_LOAD_FROM_FILE_WITH_Q && !config->path.empty()) {
        return aclmdlLoadFromFileWithQ(config->path.c_str(), modelId, inputs, input_count, outputs, output_count);
    }
    if (kind == ACL_MDL_LOAD_FROM_MEM_WITH_Q && model != nullptr && size > 0) {
        return aclmdlLoadFromMemWithQ(model, size, modelId, inputs, input_count, outputs, output_count);
    }
    return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the load type is missing or unknown, or what it needs is not set");
}

aclmdlExecConfigHandle *aclmdlCreateExecConfigHandle(void) {
    ACL_NAMED(aclmdlCreateExecConfigHandle);
    return static_cast<aclmdlExecConfigHandle *>(exec_configs().add(std::make_shared<Config>()));
}

aclError aclmdlDestroyExecConfigHandle(const aclmdlExecConfigHandle *handle) {
    ACL_CALL(aclmdlDestroyExecConfigHandle);
    ACL_NOT_NULL(handle);
    return exec_configs().remove(handle) == nullptr ? bad_handle() : ACL_SUCCESS;
}

aclError aclmdlSetExecConfigOpt(aclmdlExecConfigHandle *handle, aclmdlExecConfigAttr attr, const void *attrValue,
                                size_t valueSize) {
    ACL_CALL(aclmdlSetExecConfigOpt);
    ACL_NOT_NULL(handle);
    ACL_NOT_NULL(attrValue);
    const auto config = exec_configs().find(handle);
    if (config == nullptr) return bad_handle();
    if (attr != ACL_MDL_STREAM_SYNC_TIMEOUT && attr != ACL_MDL_EVENT_SYNC_TIMEOUT) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "attribute " + std::to_string(attr) + " is for other targets");
    }
    return set_value(*config, attr, attrValue, valueSize, 4);
}

aclError aclmdlGetAippType(uint32_t modelId, size_t index, aclmdlInputAippType *type,
        size_t *dynamicAttachedDataIndex) {
    ACL_CALL(aclmdlGetAippType);
    static_cast<void>(index);
    int code = 0;
    if (model_of(modelId, code) == nullptr) return code;
    ACL_NOT_NULL(type);
    ACL_NOT_NULL(dynamicAttachedDataIndex);
    *type = ACL_DATA_WITHOUT_AIPP;
    *dynamicAttachedDataIndex = ACL_INVALID_NODE_INDEX;
    return ACL_SUCCESS;
}

aclError aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo *aippInfo) {
    ACL_CALL(aclmdlGetFirstAippInfo);
    static_cast<void>(index);
    ACL_NOT_NULL(aippInfo);
    int code = 0;
    if (model_of(modelId, code) == nullptr) return code;
    return fail(ACL_ERROR_GE_AIPP_NOT_EXIST, "E19999", "the model has no AIPP");
}

}  // extern "C"
