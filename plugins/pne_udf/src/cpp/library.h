// Loads users' libraries, after a look at the version of the SDK they were built with.
#ifndef DFLOW_UDF_LIBRARY_H
#define DFLOW_UDF_LIBRARY_H

#include <cstdint>
#include <string>

namespace dflow {
// Versions of the SDK as major << 16 | minor.
struct SdkVersions {
    // Of the sources a library was made of; both 0 where nothing says so, as with other SDKs' headers.
    uint32_t lowest = 0;
    uint32_t highest = 0;
    // Of this runtime.
    uint32_t own = 0;
};

// Read from the file of a library, before any of its code runs.
SdkVersions ReadSdkVersions(const std::string &path);

// Load a library and keep it; gives why it must not be loaded, or the loader's text if that fails.
std::string LoadLibrary(const std::string &path);
}  // namespace dflow

#endif  // DFLOW_UDF_LIBRARY_H
