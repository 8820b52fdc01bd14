// Loaded models.
#pragma once

#include <atomic>
#include <memory>

#include "acl/acl_mdl.h"
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
    std::vector<std::vector<float>> rounded;  // copies of inputs, where it computes as in float16
    Trail made;
    std::shared_ptr<void> driver;  // runs it from queues, if it is so driven; ends before anything else of it

    ~Model();
};

using ModelPtr = std::shared_ptr<Model>;

// Run a model once, with inputs and results rounded to float16 where it was compiled so; false with the reason in `why`.
bool run_model(Model &model, std::vector<Part> &inputs, std::vector<Part> &outputs, std::string &why);
// Milliseconds that an execution with these options may take; -1 without limit.
int stream_timeout(const aclmdlExecConfigHandle *handle, int &code);
ModelPtr model_of(std::uint32_t id, int &code);
std::vector<ModelPtr> living_models();
void forget_models();

}  // namespace emu
