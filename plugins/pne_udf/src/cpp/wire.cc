#include "wire.h"

#include <cstdio>
#include <cstring>

namespace dflow {
namespace {
struct TypeInfo {
    int32_t number;
    uint32_t bits;
    const char *name;
};

constexpr TypeInfo kTypes[] = {
    {0, 32, "float"},   {1, 16, "float16"}, {2, 8, "int8"},     {3, 32, "int32"},   {4, 8, "uint8"},
    {6, 16, "int16"},   {7, 16, "uint16"},  {8, 32, "uint32"},  {9, 64, "int64"},   {10, 64, "uint64"},
    {11, 64, "double"}, {12, 8, "bool"},    {18, 8, "qint8"},   {19, 16, "qint16"}, {20, 32, "qint32"},
    {21, 8, "quint8"},  {22, 16, "quint16"}, {25, 40, "dual"},  {27, 16, "bf16"},   {29, 4, "int4"},
    {30, 1, "uint1"},   {31, 2, "int2"},    {32, 2, "uint2"},
};

const TypeInfo *FindType(int64_t number)
{
    for (const TypeInfo &type : kTypes) {
        if (type.number == number) {
            return &type;
        }
    }
    return nullptr;
}

// Finaliser of splitmix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t value)
{
    value += 0x9E3779B97F4A7C15U;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
}

// Length of the UTF-8 sequence that begins here, 0 if there is none.
size_t Utf8Length(const std::string &text, size_t at)
{
    const auto byte = static_cast<uint8_t>(text[at]);
    const size_t length = byte < 0x80 ? 1 : byte >= 0xF0 && byte < 0xF5 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 0;
    if (length == 0 || byte >= 0xF5 || at + length > text.size()) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((static_cast<uint8_t>(text[at + i]) & 0xC0) != 0x80) {
            return 0;
        }
    }
    return length;
}

void AppendJson(std::string *out, const std::string &text)
{
    *out += '"';
    for (size_t i = 0; i < text.size();) {
        const char c = text[i];
        const size_t length = Utf8Length(text, i);
        if (length == 0) {
            *out += '?';
        } else if (c == '"' || c == '\\') {
            *out += '\\';
            *out += c;
        } else if (static_cast<uint8_t>(c) < 0x20) {
            char escaped[8];
            snprintf(escaped, sizeof(escaped), "\\u%04x", static_cast<unsigned>(c));
            *out += escaped;
        } else {
            out->append(text, i, length);
        }
        i += length == 0 ? 1 : length;
    }
    *out += '"';
}

std::string ErrorJson(const ErrorInfo &error)
{
    const struct {
        const char *name;
        const std::string *value;
    } texts[] = {
        {"kind", &error.kind}, {"message", &error.message},     {"error_type", &error.error_type},
        {"node", &error.node}, {"traceback", &error.traceback}, {"hint", &error.hint},
    };
    std::string json = "{";
    for (const auto &text : texts) {
        json += std::string("\"") + text.name + "\": ";
        AppendJson(&json, *text.value);
        json += ", ";
    }
    json += "\"instance\": " + std::to_string(error.instance) + ", \"context\": " + std::to_string(error.context) +
            ", \"input_shapes\": [";
    for (size_t i = 0; i < error.input_shapes.size(); i++) {
        json += i == 0 ? "" : ", ";
        AppendJson(&json, error.input_shapes[i]);
    }
    return json + "]}";
}
}  // namespace

uint64_t RootToken(uint64_t trans_id)
{
    return Mix(trans_id);
}

uint64_t ChildToken(uint64_t parent, uint64_t index)
{
    return Mix(parent ^ Mix(index + 1));
}

uint32_t PartLabel(uint32_t parent, uint64_t index)
{
    return static_cast<uint32_t>(parent * 65536ULL + index + 1);
}

uint32_t MemberCount(View aux)
{
    uint32_t count = 0;
    if (aux.size >= sizeof(count)) {
        memcpy(&count, aux.data, sizeof(count));
    }
    return sizeof(count) + count * kMemberSize <= aux.size ? count : 0;
}

View MemberBytes(View aux)
{
    const uint32_t count = MemberCount(aux);
    return count == 0 ? View() : View{aux.data, sizeof(count) + count * kMemberSize};
}

Head MemberHead(View aux, uint32_t index)
{
    Head head;
    memcpy(&head, aux.data + sizeof(uint32_t) + index * kMemberSize + sizeof(uint64_t), sizeof(head));
    return head;
}

Bytes AuxWithError(View members, const ErrorInfo &error)
{
    members = MemberBytes(members);
    const std::string json = ErrorJson(error);
    Bytes aux(members.data, members.data + members.size);
    aux.resize(aux.empty() ? sizeof(uint32_t) : aux.size(), 0);
    aux.insert(aux.end(), json.begin(), json.end());
    return aux;
}

Bytes AuxWithoutMembers(View aux)
{
    const uint64_t begin = sizeof(uint32_t) + MemberCount(aux) * kMemberSize;
    if (aux.size <= begin) {
        return Bytes();
    }
    Bytes rest(sizeof(uint32_t), 0);
    rest.insert(rest.end(), aux.data + begin, aux.data + aux.size);
    return rest;
}

int64_t ElementCount(const std::vector<int64_t> &shape)
{
    int64_t count = 1;
    bool is_empty = false;
    for (const int64_t dim : shape) {
        if (dim < 0) {
            return -1;
        }
        is_empty = is_empty || dim == 0;
    }
    for (const int64_t dim : shape) {
        if (!is_empty && __builtin_mul_overflow(count, dim, &count)) {
            return -1;
        }
    }
    return is_empty ? 0 : count;
}

int64_t DataBytes(const std::vector<int64_t> &shape, int32_t dtype)
{
    const TypeInfo *const type = FindType(dtype);
    const int64_t count = ElementCount(shape);
    int64_t bits = 0;
    if (type == nullptr || shape.size() > kMaxRank || count < 0 ||
        __builtin_mul_overflow(count, static_cast<int64_t>(type->bits), &bits)) {
        return -1;
    }
    return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

std::string Describe(const Head &head, View body)
{
    if (body.size == 0 || (head.data_flag & kNull) != 0) {
        return "null";
    }
    Desc desc;
    if (head.msg_type != 0 || body.size < sizeof(desc)) {
        return "message of type " + std::to_string(head.msg_type) + " of " + std::to_string(body.size) + " bytes";
    }
    memcpy(&desc, body.data, sizeof(desc));
    const TypeInfo *const type = FindType(desc.dtype);
    std::string text = type != nullptr ? type->name : "dtype " + std::to_string(desc.dtype);
    text += "[";
    for (int64_t i = 0; i < desc.rank && i < static_cast<int64_t>(kMaxRank); i++) {
        text += (i == 0 ? "" : ", ") + std::to_string(desc.dims[i]);
    }
    return text + "]";
}
}  // namespace dflow
