// Loads users' libraries, after a look at the version of the SDK they were built with.
#ifndef DFLOW_UDF_LIBRARY_H
#define DFLOW_UDF_LIBRARY_H

#include <string>

namespace dflow {
// Load a library and keep it; gives why it must not be loaded, or the loader's text if that fails.
std::string LoadLibrary(const std::string &path);
}  // namespace dflow

#endif  // DFLOW_UDF_LIBRARY_H
