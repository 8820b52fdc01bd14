#include "flow_func/flow_func_ascend_string.h"

namespace FlowFunc {
namespace {
// Below, equal or above zero. The string without a name comes before all others.
int Compare(const std::shared_ptr<std::string> &a, const std::shared_ptr<std::string> &b)
{
    if (a == nullptr || b == nullptr) {
        return static_cast<int>(a != nullptr) - static_cast<int>(b != nullptr);
    }
    return a->compare(*b);
}
}  // namespace

AscendString::AscendString(const char *const name)
{
    if (name != nullptr) {
        name_ = std::make_shared<std::string>(name);
    }
}

AscendString::AscendString(const char *const name, size_t length)
{
    if (name != nullptr) {
        name_ = std::make_shared<std::string>(name, length);
    }
}

const char *AscendString::GetString() const
{
    return name_ == nullptr ? "" : name_->c_str();
}

size_t AscendString::GetLength() const
{
    return name_ == nullptr ? 0 : name_->size();
}

bool AscendString::operator<(const AscendString &other) const
{
    return Compare(name_, other.name_) < 0;
}

bool AscendString::operator>(const AscendString &other) const
{
    return Compare(name_, other.name_) > 0;
}

bool AscendString::operator<=(const AscendString &other) const
{
    return Compare(name_, other.name_) <= 0;
}

bool AscendString::operator>=(const AscendString &other) const
{
    return Compare(name_, other.name_) >= 0;
}

bool AscendString::operator==(const AscendString &other) const
{
    return Compare(name_, other.name_) == 0;
}

bool AscendString::operator!=(const AscendString &other) const
{
    return Compare(name_, other.name_) != 0;
}
}  // namespace FlowFunc
