#include "attrs.h"

#include <cstring>
#include <utility>
#include <variant>
#include <vector>

namespace dflow {
namespace {
using FlowFunc::AscendString;
using FlowFunc::TensorDataType;

template <typename T>
using List = std::vector<T>;

using Value = std::variant<std::monostate, AscendString, int64_t, float, bool, TensorDataType, List<AscendString>,
                           List<int64_t>, List<float>, List<bool>, List<TensorDataType>, List<List<int64_t>>>;

// The kinds of the flat form are the places in the variant.
constexpr uint8_t kFirstList = 6;
constexpr uint8_t kListOfLists = 11;

class Attr : public FlowFunc::AttrValue {
public:
    explicit Attr(Value value) : value_(std::move(value)) {}

    int32_t GetVal(AscendString &value) const override
    {
        return Scalar(value);
    }

    int32_t GetVal(List<AscendString> &value) const override
    {
        return Items(value);
    }

    int32_t GetVal(int64_t &value) const override
    {
        return Scalar(value);
    }

    int32_t GetVal(List<int64_t> &value) const override
    {
        return Items(value);
    }

    int32_t GetVal(List<List<int64_t>> &value) const override
    {
        const auto *const lists = std::get_if<List<List<int64_t>>>(&value_);
        if (lists == nullptr) {
            return FlowFunc::FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH;
        }
        value.insert(value.end(), lists->begin(), lists->end());
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    int32_t GetVal(float &value) const override
    {
        return Scalar(value);
    }

    int32_t GetVal(List<float> &value) const override
    {
        return Items(value);
    }

    int32_t GetVal(bool &value) const override
    {
        return Scalar(value);
    }

    int32_t GetVal(List<bool> &value) const override
    {
        return Items(value);
    }

    int32_t GetVal(TensorDataType &value) const override
    {
        return Scalar(value);
    }

    int32_t GetVal(List<TensorDataType> &value) const override
    {
        return Items(value);
    }

private:
    template <typename T>
    int32_t Scalar(T &value) const
    {
        const T *const found = std::get_if<T>(&value_);
        if (found == nullptr) {
            return FlowFunc::FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH;
        }
        value = *found;
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    // A list of another type is a list too: it gives nothing.
    template <typename T>
    int32_t Items(List<T> &value) const
    {
        if (value_.index() < kFirstList || value_.index() == kListOfLists) {
            return FlowFunc::FLOW_FUNC_ERR_ATTR_TYPE_MISMATCH;
        }
        if (const auto *const found = std::get_if<List<T>>(&value_)) {
            value.insert(value.end(), found->begin(), found->end());
        }
        return FlowFunc::FLOW_FUNC_SUCCESS;
    }

    Value value_;
};

// Reads the flat form; after a fault every read fails.
class Reader {
public:
    Reader(const void *data, uint64_t size) : at_(static_cast<const uint8_t *>(data)), end_(at_ + size) {}

    bool is_good() const
    {
        return is_good_;
    }

    bool is_at_end() const
    {
        return at_ == end_;
    }

    template <typename T>
    T Number()
    {
        T value{};
        if (Has(sizeof(T))) {
            memcpy(&value, at_, sizeof(T));
            at_ += sizeof(T);
        }
        return value;
    }

    void Read(int64_t *value)
    {
        *value = Number<int64_t>();
    }

    void Read(float *value)
    {
        *value = Number<float>();
    }

    void Read(bool *value)
    {
        *value = Number<uint8_t>() != 0;
    }

    void Read(TensorDataType *value)
    {
        *value = static_cast<TensorDataType>(Number<int32_t>());
    }

    void Read(AscendString *value)
    {
        const std::string text = Text();
        *value = AscendString(text.data(), text.size());
    }

    template <typename T>
    void Read(List<T> *value)
    {
        const auto count = Number<uint32_t>();
        for (uint32_t i = 0; i < count && is_good_; i++) {
            T item{};
            Read(&item);
            value->push_back(std::move(item));
        }
    }

    std::string Text()
    {
        const auto length = Number<uint32_t>();
        if (!Has(length)) {
            return std::string();
        }
        at_ += length;
        return std::string(reinterpret_cast<const char *>(at_ - length), length);
    }

    void Fail()
    {
        is_good_ = false;
    }

private:
    bool Has(uint64_t size)
    {
        is_good_ = is_good_ && size <= static_cast<uint64_t>(end_ - at_);
        return is_good_;
    }

    const uint8_t *at_;
    const uint8_t *end_;
    bool is_good_ = true;
};

template <size_t Kind = 1>
Value ReadValue(Reader *reader, uint8_t kind)
{
    if constexpr (Kind < std::variant_size_v<Value>) {
        if (kind != Kind) {
            return ReadValue<Kind + 1>(reader, kind);
        }
        std::variant_alternative_t<Kind, Value> value{};
        reader->Read(&value);
        return value;
    } else {
        reader->Fail();
        return Value();
    }
}
}  // namespace

bool ReadAttrs(const void *data, uint64_t size, Attrs *attrs)
{
    Reader reader(data, size);
    while (reader.is_good() && !reader.is_at_end()) {
        const std::string name = reader.Text();
        const auto kind = reader.Number<uint8_t>();
        (*attrs)[name] = std::make_shared<Attr>(ReadValue(&reader, kind));
    }
    return reader.is_good();
}
}  // namespace dflow
