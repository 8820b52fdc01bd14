// The configuration of an instance, checked and copied.
#ifndef DFLOW_UDF_CONFIG_H
#define DFLOW_UDF_CONFIG_H

#include <string>
#include <vector>

#include "contexts.h"
#include "dflow/flow_func_runtime.h"

namespace dflow {
struct Config {
    const dflow_transport *table = nullptr;
    std::string library;
    uint32_t threads = 0;
    std::vector<FuncInfo> funcs;
    std::vector<uint32_t> inputs;
    std::vector<std::vector<Route>> outputs;
    std::vector<InvokedSpec> invoked;
    std::vector<DeadPart> dead_parts;
};

// Read a configuration into `config` and `node`; gives all its faults in words, nothing if there are none.
std::string ReadConfig(const dflow_udf_config &from, Config *config, Node *node);
}  // namespace dflow

#endif  // DFLOW_UDF_CONFIG_H
