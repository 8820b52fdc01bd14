/// How the messages of one call are spread over the instances behind an output.
#ifndef FLOW_FUNC_BALANCE_CONFIG_H
#define FLOW_FUNC_BALANCE_CONFIG_H

#include <cstdint>
#include <utility>
#include <vector>

#include "flow_func_defines.h"

namespace FlowFunc {
#pragma pack(push, 1)
/// Size of the matrix the messages lie in. The weights themselves are not read; null stands for ones.
struct FLOW_FUNC_VISIBILITY BalanceWeight {
    int32_t rowNum = 0;
    int32_t colNum = 0;
    const int32_t *matrix = nullptr;
};
#pragma pack(pop)

/// Which messages go to the same instance: none in particular (scatter), those of a row, those of a column (gather).
enum class AffinityPolicy : int32_t { NO_AFFINITY = 0, ROW_AFFINITY = 1, COL_AFFINITY = 2 };

/// Balance options of one SetOutput or SetMultiOutputs; owned by its OutOptions.
class FLOW_FUNC_VISIBILITY BalanceConfig {
public:
    BalanceConfig() = default;

    virtual ~BalanceConfig() = default;

    virtual void SetAffinityPolicy(AffinityPolicy affinityPolicy) = 0;

    virtual AffinityPolicy GetAffinityPolicy() const = 0;

    virtual void SetBalanceWeight(const BalanceWeight &balanceWeight) = 0;

    virtual const BalanceWeight &GetBalanceWeight() const = 0;

    /// Place (row, column) of each message of the call, from 0.
    virtual void SetDataPos(const std::vector<std::pair<int32_t, int32_t>> &dataPos) = 0;

    virtual const std::vector<std::pair<int32_t, int32_t>> &GetDataPos() const = 0;
};
}  // namespace FlowFunc

#endif  // FLOW_FUNC_BALANCE_CONFIG_H
