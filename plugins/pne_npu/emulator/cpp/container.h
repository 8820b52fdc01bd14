// The emulator's model file: the header of an OM file, a description, weights and an OpenVINO graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace emu {

using Dims = std::vector<std::int64_t>;

struct TensorInfo {
    std::string name;
    int type = -1;
    int format = 2;
    Dims dims;                                                   // -1 where free
    std::vector<std::pair<std::int64_t, std::int64_t>> ranges;   // of each dimension; the second -1 if open
};

struct Gear {
    Dims values;                // as the user gave them: one batch, one h,w or all free positions
    std::vector<Dims> inputs;
    std::vector<Dims> outputs;

    // Dims of all inputs, one after the other.
    Dims joined() const;
};

enum class Shapes { fixed, batch, image, dims, range };

struct Description {
    std::string name;
    std::string soc;
    Shapes shapes = Shapes::fixed;
    std::size_t work_size = 0;
    std::size_t weight_size = 0;
    bool half = false;          // inputs and results are rounded to float16
    std::vector<TensorInfo> inputs;
    std::vector<TensorInfo> outputs;
    std::vector<Gear> gears;

    bool has_gears() const { return !gears.empty(); }
    std::size_t input_count() const { return inputs.size() + (has_gears() ? 1 : 0); }
    // Index of the gear with most elements.
    std::size_t largest_gear() const;
    const Dims &input_dims(std::size_t index, int gear) const;
    const Dims &output_dims(std::size_t index, int gear) const;
    std::size_t input_size(std::size_t index) const;
    std::size_t output_size(std::size_t index) const;
    // Bytes that the input with the chosen gear needs.
    std::size_t gear_size() const;
};

struct ModelFile {
    std::shared_ptr<const std::string> bytes;
    Description description;
    std::string_view weights;
    std::string_view graph;
};

// Take a model file apart. Gives 0 and fills `file`, or the code of what is wrong with it.
int open_model(std::shared_ptr<const std::string> bytes, ModelFile &file);
// The bytes of a file; a code if it cannot be read.
int read_file(const char *path, std::shared_ptr<const std::string> &bytes);

}  // namespace emu
