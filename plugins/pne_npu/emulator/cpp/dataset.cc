// Datasets: data buffers in the order of a model's inputs or outputs.
#include "acl/acl_mdl.h"
#include "tensor.h"

namespace emu {

Table<Dataset> &datasets() {
    static Table<Dataset> &made = *new Table<Dataset>(Tag::dataset);
    return made;
}

void renew_desc(Dataset &dataset, std::size_t index, int type, int format, const std::vector<std::int64_t> &dims) {
    if (dataset.descs.size() <= index) dataset.descs.resize(index + 1, nullptr);
    if (dataset.descs[index] != nullptr) tensor_descs().remove(dataset.descs[index]);
    TensorDesc desc;
    desc.type = static_cast<aclDataType>(type);
    desc.format = static_cast<aclFormat>(format);
    desc.dims = dims;
    desc.borrowed = true;
    dataset.descs[index] = desc_handle(std::move(desc));
}

}  // namespace emu

using namespace emu;

namespace {

std::shared_ptr<Dataset> dataset_of(const void *handle) {
    if (handle == nullptr) return nullptr;
    std::shared_ptr<Dataset> found = datasets().find(handle);
    if (found == nullptr) {
        const bool was = datasets().was(handle);
        misuse(ACL_ERROR_INVALID_PARAM, was ? "use-after-destroy" : "foreign-handle",
               "dataset " + hex(handle) + (was ? " has been destroyed" : " was never created"));
    }
    return found;
}

int bad_dataset() { return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the dataset is NULL or does not live"); }

}  // namespace

extern "C" {

aclmdlDataset *aclmdlCreateDataset(void) {
    ACL_NAMED(aclmdlCreateDataset);
    auto made = std::make_shared<Dataset>();
    made->made = trail();
    return static_cast<aclmdlDataset *>(datasets().add(made));
}

aclError aclmdlDestroyDataset(const aclmdlDataset *dataset) {
    ACL_CALL(aclmdlDestroyDataset);
    ACL_NOT_NULL(dataset);
    const auto found = dataset_of(dataset);
    if (found == nullptr) return bad_dataset();
    for (void *desc : found->descs) {
        if (desc != nullptr) tensor_descs().remove(desc);
    }
    datasets().remove(dataset);
    return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset *dataset, aclDataBuffer *dataBuffer) {
    ACL_CALL(aclmdlAddDatasetBuffer);
    ACL_NOT_NULL(dataset);
    ACL_NOT_NULL(dataBuffer);
    const auto found = dataset_of(dataset);
    if (found == nullptr) return bad_dataset();
    if (data_buffers().find(dataBuffer) == nullptr) {
        return misuse(ACL_ERROR_INVALID_PARAM, "use-after-destroy", "data buffer " + hex(dataBuffer)
                + " does not live");
    }
    found->buffers.push_back(dataBuffer);
    return ACL_SUCCESS;
}

size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset *dataset) {
    ACL_NAMED(aclmdlGetDatasetNumBuffers);
    const auto found = dataset_of(dataset);
    return found == nullptr ? 0 : found->buffers.size();
}

aclDataBuffer *aclmdlGetDatasetBuffer(const aclmdlDataset *dataset, size_t index) {
    ACL_NAMED(aclmdlGetDatasetBuffer);
    const auto found = dataset_of(dataset);
    return found == nullptr || index >= found->buffers.size() ? nullptr
                                                              : static_cast<aclDataBuffer *>(found->buffers[index]);
}

aclError aclmdlSetDatasetTensorDesc(aclmdlDataset *dataset, aclTensorDesc *tensorDesc, size_t index) {
    ACL_CALL(aclmdlSetDatasetTensorDesc);
    ACL_NOT_NULL(dataset);
    const auto found = dataset_of(dataset);
    if (found == nullptr) return bad_dataset();
    if (index >= found->buffers.size()) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the dataset has no such slot");
    if (tensorDesc == nullptr) {
        if (index < found->descs.size() && found->descs[index] != nullptr) {
            tensor_descs().remove(found->descs[index]);
            found->descs[index] = nullptr;
        }
        return ACL_SUCCESS;
    }
    const auto desc = tensor_descs().find(tensorDesc);
    if (desc == nullptr) return misuse(ACL_ERROR_INVALID_PARAM, "use-after-destroy", "the tensor desc does not live");
    renew_desc(*found, index, desc->type, desc->format, desc->dims);
    return ACL_SUCCESS;
}

aclTensorDesc *aclmdlGetDatasetTensorDesc(const aclmdlDataset *dataset, size_t index) {
    ACL_NAMED(aclmdlGetDatasetTensorDesc);
    const auto found = dataset_of(dataset);
    return found == nullptr || index >= found->descs.size() ? nullptr
                                                            : static_cast<aclTensorDesc *>(found->descs[index]);
}

}  // extern "C"
