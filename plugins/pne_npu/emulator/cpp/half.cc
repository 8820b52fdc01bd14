// What float16 at a model's inputs and outputs makes of float32 values; the computing between is float32.
#include "acl/acl_base.h"
#include "model.h"

namespace emu {
namespace {

void round_all(const float *from, float *to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = aclFloat16ToFloat(aclFloatToFloat16(from[i]));
}

// The inputs as copies: the program's memory is its own.
void round_inputs(Model &model, std::vector<Part> &inputs) {
    model.rounded.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (model.description.inputs[i].type != ACL_FLOAT) continue;
        std::vector<float> &copy = model.rounded[i];
        copy.resize(inputs[i].bytes / sizeof(float));
        round_all(reinterpret_cast<const float *>(inputs[i].data), copy.data(), copy.size());
        inputs[i].data = reinterpret_cast<char *>(copy.data());
    }
}

void round_outputs(const Model &model, const std::vector<Part> &outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (model.description.outputs[i].type != ACL_FLOAT) continue;
        auto *values = reinterpret_cast<float *>(outputs[i].data);
        round_all(values, values, outputs[i].bytes / sizeof(float));
    }
}

}  // namespace

bool run_model(Model &model, std::vector<Part> &inputs, std::vector<Part> &outputs, std::string &why) {
    if (model.description.half) round_inputs(model, inputs);
    if (!model.session->run(inputs, outputs, why)) return false;
    if (model.description.half) round_outputs(model, outputs);
    return true;
}

}  // namespace emu
