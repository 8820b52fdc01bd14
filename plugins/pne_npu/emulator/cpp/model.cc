// Loading and unloading models.
#include "model.h"

#include <map>
#include <mutex>

#include "acl/acl_mdl.h"
#include "queue_model.h"
#include "system.h"
#include "timeline.h"

namespace emu {
namespace {

struct Models {
    std::mutex mutex;
    std::map<std::uint32_t, ModelPtr> all;
    std::uint32_t last = 0;
};

Models &models() {
    static Models &made = *new Models;
    return made;
}

}  // namespace

Model::~Model() {
    if (charged > 0) memory::discharge(device, charged);
}

ModelPtr model_of(std::uint32_t id, int &code) {
    const std::lock_guard<std::mutex> lock(models().mutex);
    const auto found = models().all.find(id);
    code = 0;
    if (found != models().all.end()) return found->second;
    const bool was = id > 0 && id <= models().last;
    code = misuse(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, was ? "use-after-unload" : "foreign-handle",
                  "model " + std::to_string(id) + (was ? " has been unloaded" : " was never loaded"));
    return nullptr;
}

std::vector<ModelPtr> living_models() {
    const std::lock_guard<std::mutex> lock(models().mutex);
    std::vector<ModelPtr> found;
    for (const auto &[id, model] : models().all) found.push_back(model);
    return found;
}

void forget_models() {
    const std::lock_guard<std::mutex> lock(models().mutex);
    models().all.clear();
}

}  // namespace emu

using namespace emu;

namespace {

constexpr std::size_t kLeast = 64;

struct Given {
    void *work = nullptr;
    std::size_t work_size = 0;
    void *weight = nullptr;
    std::size_t weight_size = 0;
    const ModelQueues *queues = nullptr;
};

std::size_t work_of(const Description &all) { return std::max(all.work_size, kLeast); }
std::size_t weights_of(const Description &all) { return std::max(all.weight_size, kLeast); }

// A block the program gives for a model's work or weights: device memory, on this device, large enough.
int check_given(void *address, std::size_t size, std::size_t needed, int device, const char *what) {
    if (address == nullptr) return 0;
    if (size < needed) {
        return fail(ACL_ERROR_GE_PARAM_INVALID, "E10001", std::string(what) + " memory of " + std::to_string(size) +
                    " bytes is given, " + std::to_string(needed) + " are needed");
    }
    int code = 0;
    const Span span = memory::span(address, size, what, code);
    if (code != 0) return code;
    if (!span.is_device() || span.block->device != device) {
        return misuse(ACL_ERROR_GE_PARAM_INVALID, "host-pointer",
                      std::string(what) + " memory of a model is not memory of its device");
    }
    return 0;
}

int load(std::shared_ptr<const std::string> bytes, const Given &given, std::uint32_t *id) {
    if (!is_initialised()) return fail(ACL_ERROR_GE_EXEC_NOT_INIT, "E19999", "aclInit was not called");
    ACL_CONTEXT(context);
    if (is_lost(context->device)) return fail(ACL_ERROR_RT_LOST_HEARTBEAT, "EE9999", "the device is lost");
    ModelFile file;
    if (const int code = open_model(std::move(bytes), file); code != 0) return code;
    if (given.queues != nullptr) {
        if (const int code = check_queues(file.description, *given.queues); code != 0) return code;
    }
    auto model = std::make_shared<Model>();
    model->device = context->device;
    model->context = context;
    model->description = file.description;
    model->bytes = file.bytes;
    model->made = trail();
    const std::size_t work = work_of(file.description);
    const std::size_t weights = weights_of(file.description);
    int code = check_given(given.work, given.work_size, work, model->device, "work");
    if (code == 0) code = check_given(given.weight, given.weight_size, weights, model->device, "weight");
    if (code != 0) return code;
    const std::size_t own = (given.work == nullptr ? work : 0) + (given.weight == nullptr ? weights : 0);
    if (!memory::charge(model->device, own)) {
        return fail(ACL_ERROR_GE_MEMORY_ALLOCATION, "E19999", "the device has not the " + std::to_string(own) +
                    " bytes that the model's work and weights take");
    }
    model->charged = own;
    std::string why;
    model->session = make_session(file, why);
    if (model->session == nullptr) return fail(ACL_ERROR_GE_LOAD_MODEL, "E19999", "the model cannot be loaded: " + why);
    ++timeline::counters().loads;
    const std::lock_guard<std::mutex> lock(models().mutex);
    model->id = ++models().last;
    if (given.queues != nullptr) model->driver = drive(*model, *given.queues);
    models().all[model->id] = model;
    *id = model->id;
    return ACL_SUCCESS;
}

int load_file(const char *path, const Given &given, std::uint32_t *id) {
    std::shared_ptr<const std::string> bytes;
    const int code = read_file(path, bytes);
    return code != 0 ? code : load(std::move(bytes), given, id);
}

int load_memory(const void *model, std::size_t size, const Given &given, std::uint32_t *id) {
    if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the model's size is 0");
    int code = 0;
    const Span span = memory::span(model, size, "model", code);
    if (code != 0) return code;
    if (span.is_device() && span.block->data != span.block->address) {
        return misuse(ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID, "device-pointer", "the model's bytes are device memory");
    }
    return load(std::make_shared<const std::string>(span.data, size), given, id);
}

// The queues of a model that is driven by them; false if there are none.
bool queues_of(const std::uint32_t *inputs, std::size_t input_count, const std::uint32_t *outputs,
               std::size_t output_count, ModelQueues &queues) {
    if (inputs == nullptr || outputs == nullptr || input_count == 0 || output_count == 0) return false;
    queues = ModelQueues{{inputs, inputs + input_count}, {outputs, outputs + output_count}};
    return true;
}

int no_queues() { return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "there are no queues for the inputs or the outputs"); }

int sizes(const ModelFile &file, std::size_t *work, std::size_t *weight) {
    *work = work_of(file.description);
    *weight = weights_of(file.description);
    return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclmdlLoadFromFile(const char *modelPath, uint32_t *modelId) {
    ACL_CALL(aclmdlLoadFromFile);
    ACL_NOT_NULL(modelPath);
    ACL_NOT_NULL(modelId);
    return load_file(modelPath, Given{}, modelId);
}

aclError aclmdlLoadFromMem(const void *model, size_t modelSize, uint32_t *modelId) {
    ACL_CALL(aclmdlLoadFromMem);
    ACL_NOT_NULL(model);
    ACL_NOT_NULL(modelId);
    return load_memory(model, modelSize, Given{}, modelId);
}

aclError aclmdlLoadFromFileWithMem(const char *modelPath, uint32_t *modelId, void *workPtr, size_t workSize,
                                   void *weightPtr, size_t weightSize) {
    ACL_CALL(aclmdlLoadFromFileWithMem);
    ACL_NOT_NULL(modelPath);
    ACL_NOT_NULL(modelId);
    return load_file(modelPath, Given{workPtr, workSize, weightPtr, weightSize, nullptr}, modelId);
}

aclError aclmdlLoadFromMemWithMem(const void *model, size_t modelSize, uint32_t *modelId, void *workPtr,
        size_t workSize,
                                  void *weightPtr, size_t weightSize) {
    ACL_CALL(aclmdlLoadFromMemWithMem);
    ACL_NOT_NULL(model);
    ACL_NOT_NULL(modelId);
    return load_memory(model, modelSize, Given{workPtr, workSize, weightPtr, weightSize, nullptr}, modelId);
}

aclError aclmdlLoadFromFileWithQ(const char *modelPath, uint32_t *modelId, const uint32_t *inputQ, size_t inputQNum,
                                 const uint32_t *outputQ, size_t outputQNum) {
    ACL_CALL(aclmdlLoadFromFileWithQ);
    ACL_NOT_NULL(modelPath);
    ACL_NOT_NULL(modelId);
    ModelQueues queues;
    if (!queues_of(inputQ, inputQNum, outputQ, outputQNum, queues)) return no_queues();
    Given given;
    given.queues = &queues;
    return load_file(modelPath, given, modelId);
}

aclError aclmdlLoadFromMemWithQ(const void *model, size_t modelSize, uint32_t *modelId, const uint32_t *inputQ,
                                size_t inputQNum, const uint32_t *outputQ, size_t outputQNum) {
    ACL_CALL(aclmdlLoadFromMemWithQ);
    ACL_NOT_NULL(model);
    ACL_NOT_NULL(modelId);
    ModelQueues queues;
    if (!queues_of(inputQ, inputQNum, outputQ, outputQNum, queues)) return no_queues();
    Given given;
    given.queues = &queues;
    return load_memory(model, modelSize, given, modelId);
}

aclError aclmdlUnload(uint32_t modelId) {
    ACL_CALL(aclmdlUnload);
    int code = 0;
    const ModelPtr model = model_of(modelId, code);
    if (model == nullptr) return code;
    if (model->pending > 0) {
        caution("unloaded-in-flight", "model " + std::to_string(modelId) + " is unloaded with " +
                std::to_string(model->pending.load()) + " executions in flight");
    }
    const ContextPtr context = current_context();
    if (context == nullptr || model->context.lock() != context) {
        caution("wrong-context", "a model is unloaded in another context than the one it was loaded in");
    }
    const std::lock_guard<std::mutex> lock(models().mutex);
    models().all.erase(modelId);  // what drives it ends with `model`, outside of the lock
    return ACL_SUCCESS;
}

aclError aclmdlQuerySize(const char *fileName, size_t *workSize, size_t *weightSize) {
    ACL_CALL(aclmdlQuerySize);
    ACL_NOT_NULL(fileName);
    ACL_NOT_NULL(workSize);
    ACL_NOT_NULL(weightSize);
    std::shared_ptr<const std::string> bytes;
    ModelFile file;
    int code = read_file(fileName, bytes);
    if (code == 0) code = open_model(std::move(bytes), file);
    return code != 0 ? code : sizes(file, workSize, weightSize);
}

aclError aclmdlQuerySizeFromMem(const void *model, size_t modelSize, size_t *workSize, size_t *weightSize) {
    ACL_CALL(aclmdlQuerySizeFromMem);
    ACL_NOT_NULL(model);
    ACL_NOT_NULL(workSize);
    ACL_NOT_NULL(weightSize);
    if (modelSize == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the model's size is 0");
    ModelFile file;
    const int code = open_model(std::make_shared<const std::string>(static_cast<const char *>(model), modelSize), file);
    return code != 0 ? code : sizes(file, workSize, weightSize);
}

aclError aclmdlSetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue) {
    ACL_CALL(aclmdlSetAttribute);
    ACL_NOT_NULL(attrValue);
    int code = 0;
    const ModelPtr model = model_of(modelId, code);
    if (model == nullptr) return code;
    if (attr != ACL_MDL_ATTR_PRIORITY_INT32 || attrValue->mdlPriority > 7) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown attribute, or a priority above 7");
    }
    model->priority = attrValue->mdlPriority;
    return ACL_SUCCESS;
}

aclError aclmdlGetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue) {
    ACL_CALL(aclmdlGetAttribute);
    ACL_NOT_NULL(attrValue);
    int code = 0;
    const ModelPtr model = model_of(modelId, code);
    if (model == nullptr) return code;
    if (attr != ACL_MDL_ATTR_PRIORITY_INT32) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "unknown attribute");
    attrValue->mdlPriority = model->priority;
    return ACL_SUCCESS;
}

}  // extern "C"
