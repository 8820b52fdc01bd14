/// Options of an output.
#ifndef FLOW_FUNC_OUT_OPTIONS_H
#define FLOW_FUNC_OUT_OPTIONS_H

#include <memory>

#include "balance_config.h"
#include "flow_func_defines.h"

namespace FlowFunc {
class OutOptionsImpl;

/// Options of one SetOutput or SetMultiOutputs. Copies share what they hold.
class FLOW_FUNC_VISIBILITY OutOptions {
public:
    OutOptions();

    ~OutOptions();

    /// Switches balancing on; never a null pointer. Owned by the options.
    BalanceConfig *MutableBalanceConfig();

    /// A null pointer until MutableBalanceConfig was called.
    const BalanceConfig *GetBalanceConfig() const;

private:
    std::shared_ptr<OutOptionsImpl> impl_;
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_OUT_OPTIONS_H
