// The choice of one of the shapes a model was compiled for.
#include <cstring>

#include "acl/acl_mdl.h"
#include "model.h"
#include "tensor.h"

using namespace emu;

namespace {

// Write what was chosen where the model reads it, and mark the dataset.
int choose(std::uint32_t id, aclmdlDataset *dataset, std::size_t index, const Dims &values, int gear, Model &model) {
    ACL_NOT_NULL(dataset);
    const auto found = datasets().find(dataset);
    if (found == nullptr || index >= found->buffers.size() || index != model.description.inputs.size()) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the dataset has no slot for the gear at this index");
    }
    const auto buffer = data_buffers().find(found->buffers[index]);
    if (buffer == nullptr || buffer->data == nullptr) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the slot for the gear has no memory");
    }
    if (buffer->size < values.size() * sizeof(std::uint32_t)) {
        return fail(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, "E13025", "the slot for the gear is too small");
    }
    if (gear < 0) {
        return fail(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, "E13025", "the model was not compiled for this gear");
    }
    int code = 0;
    const bool wide = buffer->size >= values.size() * sizeof(std::uint64_t);
    const std::size_t bytes = values.size() * (wide ? sizeof(std::uint64_t) : sizeof(std::uint32_t));
    const Span span = memory::span(buffer->data, bytes, "the slot for the gear", code);
    if (code != 0) return code;
    if (!span.is_device()) return misuse(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, "host-pointer",
            "the slot for the gear is host memory");
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (wide) {
            const auto value = static_cast<std::uint64_t>(values[i]);
            std::memcpy(span.data + i * sizeof value, &value, sizeof value);
        } else {
            const auto value = static_cast<std::uint32_t>(values[i]);
            std::memcpy(span.data + i * sizeof value, &value, sizeof value);
        }
    }
    found->marked_for = id;
    found->gear = gear;
    model.gear = gear;
    return ACL_SUCCESS;
}

int find_gear(const Description &all, Shapes kind, const Dims &values) {
    if (all.shapes != kind) return -1;
    for (std::size_t i = 0; i < all.gears.size(); ++i) {
        if (all.gears[i].values == values) return static_cast<int>(i);
    }
    return -1;
}

// All dims of all inputs; only the free positions count.
int find_dims_gear(const Description &all, const aclmdlIODims &dims) {
    if (all.shapes != Shapes::dims) return -1;
    for (std::size_t i = 0; i < all.gears.size(); ++i) {
        Dims fixed;
        for (const TensorInfo &input : all.inputs) fixed.insert(fixed.end(), input.dims.begin(), input.dims.end());
        const Dims whole = all.gears[i].joined();
        bool same = whole.size() == dims.dimCount;
        for (std::size_t k = 0; same && k < whole.size(); ++k) same = fixed[k] >= 0 || whole[k] == dims.dims[k];
        if (same) return static_cast<int>(i);
    }
    return -1;
}

}  // namespace

extern "C" {

aclError aclmdlSetDynamicBatchSize(uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t batchSize) {
    ACL_CALL(aclmdlSetDynamicBatchSize);
    if (batchSize == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the batch size is 0");
    int code = 0;
    const ModelPtr model = model_of(modelId, code);
    if (model == nullptr) return code;
    const Dims values{static_cast<std::int64_t>(batchSize)};
    return choose(modelId, dataset, index, values, find_gear(model->description, Shapes::batch, values), *model);
}

aclError aclmdlSetDynamicHWSize(uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t height,
        uint64_t width) {
    ACL_CALL(aclmdlSetDynamicHWSize);
    if (height == 0 || width == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "height or width is 0");
    int code = 0;
    const ModelPtr model = model_of(modelId, code);
    if (model == nullptr) return code;
    const Dims values{static_cast<std::int64_t>(height), static_cast<std::int64_t>(width)};
    return choose(modelId, dataset, index, values, find_gear(model->description, Shapes::image, values), *model);
}

aclError aclmdlSetInputDynamicDims(uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlIODims *dims) {
    ACL_CALL(aclmdlSetInputDynamicDims);
    ACL_NOT_NULL(dims);
    if (dims->dimCount == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "there are no dims");
    int code = 0;
    const ModelPtr model = model_of(modelId, code);
    if (model == nullptr) return code;
    const Dims values(dims->dims, dims->dims + std::min<std::size_t>(dims->dimCount, ACL_MAX_DIM_CNT));
    return choose(modelId, dataset, index, values, find_dims_gear(model->description, *dims), *model);
}

}  // extern "C"
