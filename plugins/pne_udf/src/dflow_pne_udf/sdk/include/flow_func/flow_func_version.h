/// Version of the SDK; every library that is built with it says so in a section of its own.
#ifndef FLOW_FUNC_FLOW_FUNC_VERSION_H
#define FLOW_FUNC_FLOW_FUNC_VERSION_H

#include <cstdint>

/// Another first number means that libraries have to be built again. A higher second number brings something new: a library
/// that uses it does not load where the number is lower; all others do.
#define DFLOW_FLOW_FUNC_MAJOR 1
#define DFLOW_FLOW_FUNC_MINOR 1

namespace FlowFunc {
static const uint32_t FLOW_FUNC_BUILT_WITH[2] __attribute__((used, section(".dflow_sdk"))) = {
    0x4b445344U, (DFLOW_FLOW_FUNC_MAJOR << 16) | DFLOW_FLOW_FUNC_MINOR};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_FLOW_FUNC_VERSION_H
