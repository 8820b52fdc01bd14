// What a model takes and gives.
#include <cstring>

#include "acl/acl_mdl.h"
#include "model.h"
#include "table.h"
#include "tensor.h"

namespace emu {

struct ModelDesc {
    bool filled = false;
    std::uint32_t id = 0;
    Description all;
    Trail made;
};

Table<ModelDesc> &model_descs() {
    static Table<ModelDesc> &made = *new Table<ModelDesc>(Tag::model_desc);
    return made;
}

std::vector<Trail> living_model_descs() {
    std::vector<Trail> found;
    for (const auto &[handle, desc] : model_descs().all()) found.push_back(desc->made);
    return found;
}

void forget_model_descs() { model_descs().clear(); }

}  // namespace emu

using namespace emu;

namespace {

constexpr const char *kGearInput = ACL_DYNAMIC_TENSOR_NAME;

std::shared_ptr<ModelDesc> model_desc_of(const void *handle) {
    if (handle == nullptr) return nullptr;
    std::shared_ptr<ModelDesc> found = model_descs().find(handle);
    if (found == nullptr) {
        const bool was = model_descs().was(handle);
        misuse(ACL_ERROR_INVALID_PARAM, was ? "use-after-destroy" : "foreign-handle",
               "model desc " + hex(handle) + (was ? " has been destroyed" : " was never created"));
    }
    return found;
}

int bad_model_desc() { return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the model desc is NULL or does not live"); }
int bad_index() { return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the model has no such input or output"); }

bool is_gear_input(const Description &all, std::size_t index) { return all.has_gears() && index == all.inputs.size(); }

// The name as it stands in aclmdlIODims; long ones are replaced.
std::string shown_name(const ModelDesc &desc, const std::string &name, const char *side, std::size_t index) {
    if (name.size() < ACL_MAX_TENSOR_NAME_LEN) return name;
    return "acl_modelId_" + std::to_string(desc.id) + "_" + side + "_" + std::to_string(index);
}

int fill(const ModelDesc &desc, const std::string &name, const char *side, std::size_t index, const Dims &values,
         aclmdlIODims *dims) {
    if (values.size() > ACL_MAX_DIM_CNT) return fail(ACL_ERROR_STORAGE_OVER_LIMIT, "EH0001",
            "more than 128 dimensions");
    std::memset(dims, 0, sizeof *dims);
    const std::string shown = shown_name(desc, name, side, index);
    std::memcpy(dims->name, shown.c_str(), shown.size());
    dims->dimCount = values.size();
    std::copy(values.begin(), values.end(), dims->dims);
    return ACL_SUCCESS;
}

int input_dims(const aclmdlDesc *modelDesc, std::size_t index, aclmdlIODims *dims) {
    ACL_NOT_NULL(dims);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    const Description &all = desc->all;
    if (is_gear_input(all, index)) {
        return fill(*desc, kGearInput, "input", index,
                {static_cast<std::int64_t>(all.gear_size() / sizeof(std::uint64_t))}, dims);
    }
    if (index >= all.inputs.size()) return bad_index();
    return fill(*desc, all.inputs[index].name, "input", index, all.inputs[index].dims, dims);
}

int set_desc(aclmdlDesc *handle, std::uint32_t id, const Description &all) {
    const auto desc = model_desc_of(handle);
    if (desc == nullptr) return bad_model_desc();
    desc->filled = true;
    desc->id = id;
    desc->all = all;
    return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclmdlDesc *aclmdlCreateDesc(void) {
    ACL_NAMED(aclmdlCreateDesc);
    auto made = std::make_shared<ModelDesc>();
    made->made = trail();
    return static_cast<aclmdlDesc *>(model_descs().add(made));
}

aclError aclmdlDestroyDesc(aclmdlDesc *modelDesc) {
    ACL_CALL(aclmdlDestroyDesc);
    ACL_NOT_NULL(modelDesc);
    if (model_desc_of(modelDesc) == nullptr) return ACL_ERROR_INVALID_PARAM;
    model_descs().remove(modelDesc);
    return ACL_SUCCESS;
}

aclError aclmdlGetDesc(aclmdlDesc *modelDesc, uint32_t modelId) {
    ACL_CALL(aclmdlGetDesc);
    ACL_NOT_NULL(modelDesc);
    int code = 0;
    const ModelPtr model = model_of(modelId, code);
    return model == nullptr ? code : set_desc(modelDesc, modelId, model->description);
}

aclError aclmdlGetDescFromFile(aclmdlDesc *modelDesc, const char *modelPath) {
    ACL_CALL(aclmdlGetDescFromFile);
    ACL_NOT_NULL(modelDesc);
    ACL_NOT_NULL(modelPath);
    std::shared_ptr<const std::string> bytes;
    ModelFile file;
    int code = read_file(modelPath, bytes);
    if (code == 0) code = open_model(std::move(bytes), file);
    return code != 0 ? code : set_desc(modelDesc, 0, file.description);
}

aclError aclmdlGetDescFromMem(aclmdlDesc *modelDesc, const void *model, size_t modelSize) {
    ACL_CALL(aclmdlGetDescFromMem);
    ACL_NOT_NULL(modelDesc);
    ACL_NOT_NULL(model);
    if (modelSize == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the model's size is 0");
    ModelFile file;
    const int code = open_model(std::make_shared<const std::string>(static_cast<const char *>(model), modelSize), file);
    return code != 0 ? code : set_desc(modelDesc, 0, file.description);
}

size_t aclmdlGetNumInputs(aclmdlDesc *modelDesc) {
    ACL_NAMED(aclmdlGetNumInputs);
    const auto desc = model_desc_of(modelDesc);
    return desc == nullptr || !desc->filled ? 0 : desc->all.input_count();
}

size_t aclmdlGetNumOutputs(aclmdlDesc *modelDesc) {
    ACL_NAMED(aclmdlGetNumOutputs);
    const auto desc = model_desc_of(modelDesc);
    return desc == nullptr ? 0 : desc->all.outputs.size();
}

size_t aclmdlGetInputSizeByIndex(aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetInputSizeByIndex);
    const auto desc = model_desc_of(modelDesc);
    return desc == nullptr || !desc->filled || index >= desc->all.input_count() ? 0 : desc->all.input_size(index);
}

size_t aclmdlGetOutputSizeByIndex(aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetOutputSizeByIndex);
    const auto desc = model_desc_of(modelDesc);
    return desc == nullptr || index >= desc->all.outputs.size() ? 0 : desc->all.output_size(index);
}

aclError aclmdlGetInputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
    ACL_CALL(aclmdlGetInputDims);
    return input_dims(modelDesc, index, dims);
}

aclError aclmdlGetInputDimsV2(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
    ACL_CALL(aclmdlGetInputDimsV2);
    return input_dims(modelDesc, index, dims);
}

aclError aclmdlGetInputDimsRange(const aclmdlDesc *modelDesc, size_t index, aclmdlIODimsRange *dimsRange) {
    ACL_CALL(aclmdlGetInputDimsRange);
    ACL_NOT_NULL(dimsRange);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    if (index >= desc->all.inputs.size()) return bad_index();
    const TensorInfo &input = desc->all.inputs[index];
    std::memset(dimsRange, 0, sizeof *dimsRange);
    dimsRange->rangeCount = input.dims.size();
    for (std::size_t i = 0; i < input.dims.size(); ++i) {
        const bool ranged = i < input.ranges.size() && input.dims[i] < 0;
        dimsRange->range[i][0] = ranged ? input.ranges[i].first : input.dims[i] < 0 ? 1 : input.dims[i];
        dimsRange->range[i][1] = ranged ? input.ranges[i].second : input.dims[i];
    }
    return ACL_SUCCESS;
}

aclError aclmdlGetOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
    ACL_CALL(aclmdlGetOutputDims);
    ACL_NOT_NULL(dims);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    const Description &all = desc->all;
    if (index >= all.outputs.size()) return bad_index();
    const int gear = all.has_gears() ? static_cast<int>(all.largest_gear()) : -1;
    return fill(*desc, all.outputs[index].name, "output", index, all.output_dims(index, gear), dims);
}

aclError aclmdlGetCurOutputDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims) {
    ACL_CALL(aclmdlGetCurOutputDims);
    ACL_NOT_NULL(dims);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    const Description &all = desc->all;
    if (all.shapes == Shapes::range) {
        return fail(ACL_ERROR_API_NOT_SUPPORT, "EH0001",
                "shapes of this model's outputs are in the dataset's tensor descs");
    }
    if (index >= all.outputs.size()) return bad_index();
    int gear = all.has_gears() ? static_cast<int>(all.largest_gear()) : -1;
    if (all.has_gears()) {
        int code = 0;
        const ModelPtr model = model_of(desc->id, code);
        if (model == nullptr) return code;
        if (model->gear >= 0) gear = model->gear;
    }
    return fill(*desc, all.outputs[index].name, "output", index, all.output_dims(index, gear), dims);
}

const char *aclmdlGetInputNameByIndex(const aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetInputNameByIndex);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr || !desc->filled) return "";
    if (is_gear_input(desc->all, index)) return kGearInput;
    return index < desc->all.inputs.size() ? desc->all.inputs[index].name.c_str() : "";
}

const char *aclmdlGetOutputNameByIndex(const aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetOutputNameByIndex);
    const auto desc = model_desc_of(modelDesc);
    return desc != nullptr && index < desc->all.outputs.size() ? desc->all.outputs[index].name.c_str() : "";
}

aclFormat aclmdlGetInputFormat(const aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetInputFormat);
    const auto desc = model_desc_of(modelDesc);
    if (desc != nullptr && desc->filled && is_gear_input(desc->all, index)) return ACL_FORMAT_ND;
    return desc != nullptr && index < desc->all.inputs.size() ? static_cast<aclFormat>(desc->all.inputs[index].format)
                                                              : ACL_FORMAT_UNDEFINED;
}

aclFormat aclmdlGetOutputFormat(const aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetOutputFormat);
    const auto desc = model_desc_of(modelDesc);
    return desc != nullptr && index < desc->all.outputs.size() ? static_cast<aclFormat>(desc->all.outputs[index].format)
                                                               : ACL_FORMAT_UNDEFINED;
}

aclDataType aclmdlGetInputDataType(const aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetInputDataType);
    const auto desc = model_desc_of(modelDesc);
    if (desc != nullptr && desc->filled && is_gear_input(desc->all, index)) return ACL_UINT64;
    return desc != nullptr && index < desc->all.inputs.size() ? static_cast<aclDataType>(desc->all.inputs[index].type)
                                                              : ACL_DT_UNDEFINED;
}

aclDataType aclmdlGetOutputDataType(const aclmdlDesc *modelDesc, size_t index) {
    ACL_NAMED(aclmdlGetOutputDataType);
    const auto desc = model_desc_of(modelDesc);
    return desc != nullptr && index < desc->all.outputs.size() ? static_cast<aclDataType>(desc->all.outputs[index].type)
                                                               : ACL_DT_UNDEFINED;
}

aclError aclmdlGetInputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index) {
    ACL_CALL(aclmdlGetInputIndexByName);
    ACL_NOT_NULL(name);
    ACL_NOT_NULL(index);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    for (std::size_t i = 0; i < desc->all.input_count(); ++i) {
        if (std::strcmp(is_gear_input(desc->all, i) ? kGearInput : desc->all.inputs[i].name.c_str(), name) == 0) {
            *index = i;
            return ACL_SUCCESS;
        }
    }
    return fail(ACL_ERROR_INVALID_PARAM, "EH0001", std::string("the model has no input ") + name);
}

aclError aclmdlGetOutputIndexByName(const aclmdlDesc *modelDesc, const char *name, size_t *index) {
    ACL_CALL(aclmdlGetOutputIndexByName);
    ACL_NOT_NULL(name);
    ACL_NOT_NULL(index);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    for (std::size_t i = 0; i < desc->all.outputs.size(); ++i) {
        if (desc->all.outputs[i].name == name) {
            *index = i;
            return ACL_SUCCESS;
        }
    }
    return fail(ACL_ERROR_INVALID_PARAM, "EH0001", std::string("the model has no output ") + name);
}

aclError aclmdlGetDynamicBatch(const aclmdlDesc *modelDesc, aclmdlBatch *batch) {
    ACL_CALL(aclmdlGetDynamicBatch);
    ACL_NOT_NULL(batch);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    batch->batchCount = 0;
    if (desc->all.shapes != Shapes::batch) return ACL_SUCCESS;
    if (desc->all.gears.size() > ACL_MAX_BATCH_NUM) return fail(ACL_ERROR_STORAGE_OVER_LIMIT, "EH0001",
            "more than 128 gears");
    for (const Gear &gear
            : desc->all.gears) batch->batch[batch->batchCount++] = static_cast<std::uint64_t>(gear.values[0]);
    return ACL_SUCCESS;
}

aclError aclmdlGetDynamicHW(const aclmdlDesc *modelDesc, size_t index, aclmdlHW *hw) {
    ACL_CALL(aclmdlGetDynamicHW);
    static_cast<void>(index);
    ACL_NOT_NULL(hw);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    hw->hwCount = 0;
    if (desc->all.shapes != Shapes::image) return ACL_SUCCESS;
    if (desc->all.gears.size() > ACL_MAX_HW_NUM) return fail(ACL_ERROR_STORAGE_OVER_LIMIT, "EH0001",
            "more than 128 gears");
    for (const Gear &gear : desc->all.gears) {
        hw->hw[hw->hwCount][0] = static_cast<std::uint64_t>(gear.values[0]);
        hw->hw[hw->hwCount++][1] = static_cast<std::uint64_t>(gear.values[1]);
    }
    return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicGearCount(const aclmdlDesc *modelDesc, size_t index, size_t *gearCount) {
    ACL_CALL(aclmdlGetInputDynamicGearCount);
    ACL_NOT_NULL(gearCount);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    if (index != static_cast<size_t>(-1)) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "index must be -1");
    *gearCount = desc->all.shapes == Shapes::dims ? desc->all.gears.size() : 0;
    return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicDims(const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims, size_t gearCount) {
    ACL_CALL(aclmdlGetInputDynamicDims);
    ACL_NOT_NULL(dims);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr) return bad_model_desc();
    const std::size_t count = desc->all.shapes == Shapes::dims ? desc->all.gears.size() : 0;
    if (index != static_cast<size_t>(-1) || gearCount < count) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "index must be -1, and there must be room for all gears");
    }
    for (std::size_t i = 0; i < count; ++i) fill(*desc, "", "input", i, desc->all.gears[i].joined(), &dims[i]);
    return ACL_SUCCESS;
}

const char *aclmdlGetTensorRealName(const aclmdlDesc *modelDesc, const char *name) {
    ACL_NAMED(aclmdlGetTensorRealName);
    const auto desc = model_desc_of(modelDesc);
    if (desc == nullptr || name == nullptr) return "";
    const auto among = [&](const std::vector<TensorInfo> &side, const char *word) -> const char * {
        for (std::size_t i = 0; i < side.size(); ++i) {
            if (side[i].name == name || shown_name(*desc, side[i].name, word, i) == name) return side[i].name.c_str();
        }
        return nullptr;
    };
    const char *found = among(desc->all.inputs, "input");
    if (found == nullptr) found = among(desc->all.outputs, "output");
    return found == nullptr ? "" : found;
}

const char *aclmdlGetOpAttr(aclmdlDesc *modelDesc, const char *opName, const char *attr) {
    ACL_NAMED(aclmdlGetOpAttr);
    static_cast<void>(modelDesc);
    static_cast<void>(opName);
    static_cast<void>(attr);
    return nullptr;
}

}  // extern "C"
