// Runs a model on the CPU: OpenVINO behind its C interface, opened when the first model is loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "container.h"

namespace emu {

struct Part {
    char *data = nullptr;
    std::size_t room = 0;  // bytes at data
    Dims dims;
    bool known = true;     // whether dims are what comes out; else they are set by the run
    std::size_t bytes = 0;
    std::function<char *(std::size_t)> take;  // gives memory where there is none at data
};

class Session {
public:
    virtual ~Session() = default;
    // Run once, from the inputs' memory into the outputs'; false with the reason in `why`.
    virtual bool run(std::vector<Part> &inputs, std::vector<Part> &outputs, std::string &why) = 0;
};

// Compile a model; nullptr with the reason in `why`.
std::unique_ptr<Session> make_session(const ModelFile &file, std::string &why);

}  // namespace emu
