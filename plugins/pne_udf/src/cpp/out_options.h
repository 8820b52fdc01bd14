// What OutOptions holds.
#ifndef DFLOW_UDF_OUT_OPTIONS_H
#define DFLOW_UDF_OUT_OPTIONS_H

#include <cstdint>

#include "flow_func/out_options.h"

namespace dflow {
// Labels of one message of a balanced call.
struct Labels {
    uint32_t data = 0;
    uint32_t route = 0;
};

// The labels of `count` messages, or FLOW_FUNC_ERR_PARAM_INVALID with the reason (runtime-semantics.md section 12.1).
int32_t BalanceLabels(const FlowFunc::BalanceConfig &config, bool is_scatter, bool is_gather, size_t count,
                      std::vector<Labels> *labels, const char **reason);
}  // namespace dflow

#endif  // DFLOW_UDF_OUT_OPTIONS_H
