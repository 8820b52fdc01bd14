// Data buffers, tensor descriptors and datasets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acl/acl_base.h"
#include "report.h"
#include "table.h"

namespace emu {

struct DataBuffer {
    void *data = nullptr;
    std::size_t size = 0;
    Trail made;
};

struct TensorDesc {
    aclDataType type = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    std::vector<std::int64_t> dims;
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
    aclFormat storage_format = ACL_FORMAT_UNDEFINED;
    std::vector<std::int64_t> storage_dims;
    std::string name;
    std::string dynamic_name;
    std::vector<char> constant;
    aclMemType placement = ACL_MEMTYPE_DEVICE;
    bool borrowed = false;  // belongs to a dataset
    Trail made;
};

struct Dataset {
    std::vector<void *> buffers;
    std::vector<void *> descs;     // handles of its own descs, or nullptr
    std::uint32_t marked_for = 0;  // model whose gear was chosen
    int gear = -1;
    Trail made;
};

Table<DataBuffer> &data_buffers();
Table<TensorDesc> &tensor_descs();
Table<Dataset> &datasets();
std::size_t type_size(int type);
// Bytes of a tensor; 0 if a dimension is free or the number overflows.
std::size_t byte_size(int type, const std::vector<std::int64_t> &dims);
// Make a dataset's own desc of slot `index` say what came out.
void renew_desc(Dataset &dataset, std::size_t index, int type, int format, const std::vector<std::int64_t> &dims);
void *desc_handle(TensorDesc desc);

}  // namespace emu
