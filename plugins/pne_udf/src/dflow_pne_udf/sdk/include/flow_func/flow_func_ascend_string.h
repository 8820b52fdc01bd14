/// A string that passes between libraries whatever std::string they were built with.
#ifndef FLOW_FUNC_FLOW_FUNC_ASCEND_STRING_H
#define FLOW_FUNC_FLOW_FUNC_ASCEND_STRING_H

#include <memory>
#include <string>

#include "flow_func_defines.h"

namespace FlowFunc {
/// An immutable string; copies share it. The one without a name comes before all others, the empty one included.
///
/// Only the library makes, reads and compares the std::string inside, so a function may be compiled with either
/// value of _GLIBCXX_USE_CXX11_ABI.
class FLOW_FUNC_VISIBILITY AscendString {
public:
    AscendString() = default;

    ~AscendString() = default;

    /// A copy of a text; a null pointer gives the string without a name.
    AscendString(const char *const name);

    /// A copy of exactly `length` bytes.
    AscendString(const char *const name, size_t length);

    /// The text, never a null pointer.
    const char *GetString() const;

    /// Its bytes.
    size_t GetLength() const;

    bool operator<(const AscendString &other) const;

    bool operator>(const AscendString &other) const;

    bool operator<=(const AscendString &other) const;

    bool operator>=(const AscendString &other) const;

    bool operator==(const AscendString &other) const;

    bool operator!=(const AscendString &other) const;

private:
    std::shared_ptr<std::string> name_;
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_FLOW_FUNC_ASCEND_STRING_H
