// Models that are driven by queues instead of calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model.h"

namespace emu {

struct ModelQueues {
    std::vector<std::uint32_t> inputs;
    std::vector<std::uint32_t> outputs;
};

// 0 if a model can be driven by these queues, else a code.
int check_queues(const Description &description, const ModelQueues &queues);
// Start driving a model; it ends when the last reference goes.
std::shared_ptr<void> drive(Model &model, const ModelQueues &queues);

}  // namespace emu
