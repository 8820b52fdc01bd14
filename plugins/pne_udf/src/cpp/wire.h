// How a message lies in a block: head, body (for a tensor: descriptor and data), aux section.
//
// The same bytes as dflow_core/message: info.py (head, tokens), tensor_desc.py (descriptor), aux.py (aux section).
#ifndef DFLOW_UDF_WIRE_H
#define DFLOW_UDF_WIRE_H

#include <cstdint>
#include <string>
#include <vector>

namespace dflow {
constexpr uint64_t kHeadSize = 256;
constexpr uint64_t kDescSize = 1024;
constexpr uint64_t kUserDataSize = 64;
constexpr size_t kMaxRank = 32;
constexpr uint64_t kMemberSize = 8 + kHeadSize;

// Bits of `Head::data_flag`.
enum DataFlag : uint8_t { kNull = 1, kCustomId = 2, kSkip = 4, kEnd = 8, kError = 16, kInjected = 32 };

struct Head {
    uint8_t user_data[kUserDataSize];
    uint64_t body_size;
    uint32_t aux_size;
    uint8_t unused[116];
    uint64_t trans_id;
    uint16_t version;
    uint16_t msg_type;
    int32_t ret_code;
    uint64_t start_time;
    uint64_t end_time;
    uint32_t flags;
    uint8_t data_flag;
    uint8_t reserved[3];
    int32_t worker_id;
    uint32_t step_id;
    uint64_t token;
    uint32_t data_label;
    uint32_t route_label;
};

struct Desc {
    uint64_t address;
    int64_t offset;
    int64_t dtype;
    int64_t rank;
    int64_t dims[kMaxRank];
    int64_t original[kMaxRank + 1];
    int64_t format;
    int64_t sub_format;
    uint64_t data_size;
    uint8_t reserved[448];
};
static_assert(sizeof(Head) == kHeadSize, "the head has 256 bytes");
static_assert(sizeof(Desc) == kDescSize, "a descriptor has 1024 bytes");

using Bytes = std::vector<uint8_t>;

struct View {
    const uint8_t *data = nullptr;
    uint64_t size = 0;
};

// Token of the message that was fed for a transaction, and of part `index` of the message with token `parent`.
uint64_t RootToken(uint64_t trans_id);
uint64_t ChildToken(uint64_t parent, uint64_t index);

// Label of a part; parts of parts stay apart as long as none has more than 65535.
uint32_t PartLabel(uint32_t parent, uint64_t index);

// What failed, as it travels in a message.
struct ErrorInfo {
    std::string kind;
    std::string message;
    std::string error_type;
    std::string node;
    int32_t instance = 0;
    std::string traceback;
    std::vector<std::string> input_shapes;
    std::string hint;
    uint64_t context = 0; // the number a function gave along with an exception
};

// Members of a batch in an aux section: how many, their bytes (count included; nothing if there are none), a head.
uint32_t MemberCount(View aux);
View MemberBytes(View aux);
Head MemberHead(View aux, uint32_t index);

// An aux section with the members of another one, perhaps none, and an error.
Bytes AuxWithError(View members, const ErrorInfo &error);

// The aux section without its members; nothing if only those were in it.
Bytes AuxWithoutMembers(View aux);

// Bytes of a tensor's data; -1 if the shape or the type does not allow any.
int64_t DataBytes(const std::vector<int64_t> &shape, int32_t dtype);

// Elements of a shape; -1 if a dimension is negative or the product too large.
int64_t ElementCount(const std::vector<int64_t> &shape);

// Name of a data type such as `float32`, and a payload in words such as `float32[3, 4]`.
std::string Describe(const Head &head, View body);
}  // namespace dflow

#endif  // DFLOW_UDF_WIRE_H
