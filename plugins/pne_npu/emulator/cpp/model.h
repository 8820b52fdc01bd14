// Loaded models.
#pragma once

#include <atomic>
#include <memory>

#include "backend.h"
#include "container.h"
#include "device.h"
#include "memory.h"

namespace emu {

struct Model {
    std::uint32_t id = 0;
    int device = 0;
    std::weak_ptr<Context> context;
    Description description;
    std::unique_ptr<Session> session;
    std::shared_ptr<const std::string> bytes;  // weights are read from here
    std::size_t charged = 0;
    std::atomic<bool> busy{false};
    std::atomic<int> pending{0};
    std::uint32_t priority = 0;
    std::atomic<int> gear{-1};  // chosen last
    Trail made;
    std::shared_ptr<void> driver;  // runs it from queues, if it is so driven; ends before anything else of it

    ~Model();
};

using ModelPtr = std::shared_ptr<Model>;

ModelPtr model_of(std::uint32_t id, int &code);
std::vector<ModelPtr> living_models();
void forget_models();

}  // namespace emu
