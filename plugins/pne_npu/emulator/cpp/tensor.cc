#include "tensor.h"

#include <cstring>

#include "acl/acl_mdl.h"

namespace emu {

Table<DataBuffer> &data_buffers() {
    static Table<DataBuffer> &made = *new Table<DataBuffer>(Tag::data_buffer);
    return made;
}

Table<TensorDesc> &tensor_descs() {
    static Table<TensorDesc> &made = *new Table<TensorDesc>(Tag::tensor_desc);
    return made;
}

std::size_t type_size(int type) {
    switch (type) {
        case ACL_DT_UNDEFINED: case ACL_STRING: return 0;
        case ACL_INT8: case ACL_UINT8: case ACL_BOOL: case ACL_INT4: case ACL_UINT1: case ACL_HIFLOAT8:
        case ACL_FLOAT8_E5M2: case ACL_FLOAT8_E4M3FN: case ACL_FLOAT8_E8M0: return 1;
        case ACL_FLOAT16: case ACL_INT16: case ACL_UINT16: case ACL_BF16: return 2;
        case ACL_FLOAT: case ACL_INT32: case ACL_UINT32: case ACL_COMPLEX32: return 4;
        case ACL_COMPLEX128: return 16;
        default: return 8;
    }
}

std::size_t byte_size(int type, const std::vector<std::int64_t> &dims) {
    std::size_t size = type_size(type);
    for (const std::int64_t dim : dims) {
        if (dim < 0 || __builtin_mul_overflow(size, static_cast<std::size_t>(dim), &size)) return 0;
    }
    return size;
}

void *desc_handle(TensorDesc desc) { return tensor_descs().add(std::make_shared<TensorDesc>(std::move(desc))); }

}  // namespace emu

using namespace emu;

namespace {

std::shared_ptr<TensorDesc> desc_of(const void *handle) {
    if (handle == nullptr) return nullptr;
    std::shared_ptr<TensorDesc> found = tensor_descs().find(handle);
    if (found == nullptr) {
        const bool was = tensor_descs().was(handle);
        misuse(ACL_ERROR_INVALID_PARAM, was ? "use-after-destroy" : "foreign-handle", "tensor desc " + hex(handle) +
               (was ? " has been destroyed (a dataset makes new ones in every dynamic execution)"
                       : " was never created"));
    }
    return found;
}

int bad_desc() { return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the tensor desc is NULL or does not live"); }

std::shared_ptr<DataBuffer> buffer_of(const void *handle, const char *doing) {
    if (handle == nullptr) return nullptr;
    std::shared_ptr<DataBuffer> found = data_buffers().find(handle);
    if (found == nullptr) {
        const bool was = data_buffers().was(handle);
        misuse(ACL_ERROR_INVALID_PARAM, was ? "use-after-destroy" : "foreign-handle", std::string(doing)
                + ": data buffer " +
               hex(handle) + (was ? " has been destroyed" : " was never created"));
    }
    return found;
}

bool is_unknown_rank(const TensorDesc &desc) { return desc.dims.size() == 1 && desc.dims[0] == -2; }

}  // namespace

extern "C" {

size_t aclDataTypeSize(aclDataType dataType) { return type_size(dataType); }

// The vendor's conversions take no account of infinities and NaNs: exponent 31 is an ordinary one.
float aclFloat16ToFloat(aclFloat16 value) {
    const int exponent = value >> 10 & 31;
    const int fraction = value & 1023;
    float result = exponent == 0 ? static_cast<float>(fraction) / 16777216.0F
                                 : (1.0F + static_cast<float>(fraction) / 1024.0F);
    for (int i = 15; exponent != 0 && i < exponent; ++i) result *= 2.0F;
    for (int i = exponent; exponent != 0 && i < 15; ++i) result /= 2.0F;
    return value >> 15 != 0 ? -result : result;
}

aclFloat16 aclFloatToFloat16(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const auto sign = static_cast<std::uint32_t>(bits >> 16 & 0x8000);
    const int exponent = static_cast<int>(bits >> 23 & 255) - 127;
    const std::uint32_t fraction = bits & 0x7FFFFF;
    std::uint32_t half = 0;
    if (exponent > 15) {
        half = 0x7BFF;  // saturates; so do infinities and NaNs
    } else if (exponent >= -25) {
        const int shift = exponent >= -14 ? 13 : 13 + (-14 - exponent);
        const std::uint32_t whole = fraction | 0x800000;
        std::uint32_t kept = whole >> shift;
        const std::uint32_t rest = whole & ((1U << shift) - 1);
        const std::uint32_t middle = 1U << (shift - 1);
        if (rest > middle || (rest == middle && (kept & 1) != 0)) ++kept;
        half = exponent >= -14 ? (static_cast<std::uint32_t>(exponent + 14) << 10) + kept : kept;
        if (half > 0x7BFF) half = 0x7BFF;
    }
    return static_cast<aclFloat16>(sign | half);
}

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size) {
    ACL_NAMED(aclCreateDataBuffer);
    return static_cast<aclDataBuffer *>(data_buffers().add(std::make_shared<DataBuffer>(DataBuffer{data, size,
            trail()})));
}

aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer) {
    ACL_CALL(aclDestroyDataBuffer);
    ACL_NOT_NULL(dataBuffer);
    if (buffer_of(dataBuffer, "destroying") == nullptr) return ACL_ERROR_INVALID_PARAM;
    data_buffers().remove(dataBuffer);
    return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size) {
    ACL_CALL(aclUpdateDataBuffer);
    ACL_NOT_NULL(dataBuffer);
    const auto found = buffer_of(dataBuffer, "updating");
    if (found == nullptr) return ACL_ERROR_INVALID_PARAM;
    found->data = data;
    found->size = size;
    return ACL_SUCCESS;
}

void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer) {
    ACL_NAMED(aclGetDataBufferAddr);
    const auto found = buffer_of(dataBuffer, "reading");
    return found == nullptr ? nullptr : found->data;
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer) {
    ACL_NAMED(aclGetDataBufferSizeV2);
    const auto found = buffer_of(dataBuffer, "reading");
    return found == nullptr ? 0 : found->size;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer) {
    return static_cast<uint32_t>(aclGetDataBufferSizeV2(dataBuffer));
}

aclTensorDesc *aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t *dims, aclFormat format) {
    ACL_NAMED(aclCreateTensorDesc);
    if (numDims < 0 || (numDims > 0 && dims == nullptr)) return nullptr;
    TensorDesc desc;
    desc.type = dataType;
    desc.format = format;
    desc.storage_format = format;
    if (numDims > 0) desc.dims.assign(dims, dims + numDims);
    desc.made = trail();
    return static_cast<aclTensorDesc *>(desc_handle(std::move(desc)));
}

void aclDestroyTensorDesc(const aclTensorDesc *desc) {
    ACL_NAMED(aclDestroyTensorDesc);
    const auto found = desc_of(desc);
    if (found == nullptr) return;
    if (found->borrowed) {
        misuse(ACL_ERROR_INVALID_PARAM, "borrowed-destroyed", "a tensor desc of a dataset is destroyed by the program");
        return;
    }
    tensor_descs().remove(desc);
}

aclDataType aclGetTensorDescType(const aclTensorDesc *desc) {
    ACL_NAMED(aclGetTensorDescType);
    const auto found = desc_of(desc);
    return found == nullptr ? ACL_DT_UNDEFINED : found->type;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc *desc) {
    ACL_NAMED(aclGetTensorDescFormat);
    const auto found = desc_of(desc);
    return found == nullptr ? ACL_FORMAT_UNDEFINED : found->format;
}

size_t aclGetTensorDescSize(const aclTensorDesc *desc) {
    ACL_NAMED(aclGetTensorDescSize);
    const auto found = desc_of(desc);
    return found == nullptr ? 0 : byte_size(found->type, found->dims);
}

size_t aclGetTensorDescElementCount(const aclTensorDesc *desc) {
    ACL_NAMED(aclGetTensorDescElementCount);
    const auto found = desc_of(desc);
    return found == nullptr ? 0 : byte_size(ACL_UINT8, found->dims);
}

size_t aclGetTensorDescNumDims(const aclTensorDesc *desc) {
    ACL_NAMED(aclGetTensorDescNumDims);
    const auto found = desc_of(desc);
    if (found == nullptr) return 0;
    return is_unknown_rank(*found) ? ACL_UNKNOWN_RANK : found->dims.size();
}

aclError aclGetTensorDescDimV2(const aclTensorDesc *desc, size_t index, int64_t *dimSize) {
    ACL_CALL(aclGetTensorDescDimV2);
    ACL_NOT_NULL(dimSize);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    if (index >= found->dims.size()) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "there is no such dimension");
    *dimSize = found->dims[index];
    return ACL_SUCCESS;
}

int64_t aclGetTensorDescDim(const aclTensorDesc *desc, size_t index) {
    ACL_NAMED(aclGetTensorDescDim);
    const auto found = desc_of(desc);
    return found == nullptr || index >= found->dims.size() ? -1 : found->dims[index];
}

aclError aclGetTensorDescDimRange(const aclTensorDesc *desc, size_t index, size_t dimRangeNum, int64_t *dimRange) {
    ACL_CALL(aclGetTensorDescDimRange);
    ACL_NOT_NULL(dimRange);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    if (index >= found->ranges.size() || dimRangeNum < ACL_TENSOR_SHAPE_RANGE_NUM) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001",
                "there is no range for that dimension, or no room for two numbers");
    }
    dimRange[0] = found->ranges[index].first;
    dimRange[1] = found->ranges[index].second;
    return ACL_SUCCESS;
}

aclError aclSetTensorShapeRange(aclTensorDesc *desc, size_t dimsCount,
        int64_t dimsRange[][ACL_TENSOR_SHAPE_RANGE_NUM]) {
    ACL_CALL(aclSetTensorShapeRange);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    ACL_NOT_NULL(dimsRange);
    found->ranges.clear();
    for (std::size_t i = 0; i < dimsCount; ++i) found->ranges.emplace_back(dimsRange[i][0], dimsRange[i][1]);
    return ACL_SUCCESS;
}

aclError aclSetTensorValueRange(aclTensorDesc *desc, size_t valueCount,
        int64_t valueRange[][ACL_TENSOR_VALUE_RANGE_NUM]) {
    ACL_CALL(aclSetTensorValueRange);
    static_cast<void>(valueCount);
    ACL_NOT_NULL(valueRange);
    return desc_of(desc) == nullptr ? bad_desc() : ACL_SUCCESS;
}

void aclSetTensorDescName(aclTensorDesc *desc, const char *name) {
    ACL_NAMED(aclSetTensorDescName);
    const auto found = desc_of(desc);
    if (found != nullptr) found->name = name == nullptr ? "" : name;
}

const char *aclGetTensorDescName(aclTensorDesc *desc) {
    ACL_NAMED(aclGetTensorDescName);
    const auto found = desc_of(desc);
    return found == nullptr ? "" : found->name.c_str();
}

aclError aclTransTensorDescFormat(const aclTensorDesc *srcDesc, aclFormat dstFormat, aclTensorDesc **dstDesc) {
    ACL_CALL(aclTransTensorDescFormat);
    ACL_NOT_NULL(srcDesc);
    ACL_NOT_NULL(dstDesc);
    static_cast<void>(dstFormat);
    return fail(ACL_ERROR_API_NOT_SUPPORT, "EH0001", "formats are not converted");
}

aclError aclSetTensorStorageFormat(aclTensorDesc *desc, aclFormat format) {
    ACL_CALL(aclSetTensorStorageFormat);
    const auto found = desc_of(desc);
    if (found != nullptr) found->storage_format = format;
    return ACL_SUCCESS;
}

aclError aclSetTensorStorageShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    ACL_CALL(aclSetTensorStorageShape);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    if (numDims < 0 || (numDims > 0 && dims == nullptr)) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "no dims");
    if (numDims > 0) found->storage_dims.assign(dims, dims + numDims);
    return ACL_SUCCESS;
}

aclError aclSetTensorFormat(aclTensorDesc *desc, aclFormat format) { return aclSetTensorStorageFormat(desc, format); }

aclError aclSetTensorShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    return aclSetTensorStorageShape(desc, numDims, dims);
}

aclError aclSetTensorOriginFormat(aclTensorDesc *desc, aclFormat format) {
    ACL_CALL(aclSetTensorOriginFormat);
    const auto found = desc_of(desc);
    if (found != nullptr) found->format = format;
    return ACL_SUCCESS;
}

aclError aclSetTensorOriginShape(aclTensorDesc *desc, int numDims, const int64_t *dims) {
    ACL_CALL(aclSetTensorOriginShape);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    if (numDims < 0 || (numDims > 0 && dims == nullptr)) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "no dims");
    found->dims.clear();
    if (numDims > 0) found->dims.assign(dims, dims + numDims);
    return ACL_SUCCESS;
}

aclTensorDesc *aclGetTensorDescByIndex(aclTensorDesc *desc, size_t index) {
    ACL_NAMED(aclGetTensorDescByIndex);
    return desc_of(desc) == nullptr || index != 0 ? nullptr : desc;
}

void *aclGetTensorDescAddress(const aclTensorDesc *desc) {
    ACL_NAMED(aclGetTensorDescAddress);
    static_cast<void>(desc_of(desc));
    return nullptr;
}

aclError aclSetTensorDynamicInput(aclTensorDesc *desc, const char *dynamicInputName) {
    ACL_CALL(aclSetTensorDynamicInput);
    ACL_NOT_NULL(dynamicInputName);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    found->dynamic_name = dynamicInputName;
    return ACL_SUCCESS;
}

aclError aclSetTensorConst(aclTensorDesc *desc, void *dataBuffer, size_t length) {
    ACL_CALL(aclSetTensorConst);
    ACL_NOT_NULL(dataBuffer);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    if (length == 0) return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the length is 0");
    found->constant.assign(static_cast<char *>(dataBuffer), static_cast<char *>(dataBuffer) + length);
    return ACL_SUCCESS;
}

aclError aclSetTensorPlaceMent(aclTensorDesc *desc, aclMemType memType) {
    ACL_CALL(aclSetTensorPlaceMent);
    const auto found = desc_of(desc);
    if (found == nullptr) return bad_desc();
    found->placement = memType;
    return ACL_SUCCESS;
}

}  // extern "C"
