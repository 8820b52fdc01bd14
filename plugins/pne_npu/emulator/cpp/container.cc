#include "container.h"

#include <cstring>
#include <fstream>
#include <sstream>

#include "acl/acl_error_codes.h"
#include "call.h"
#include "tensor.h"

namespace emu {
namespace {

constexpr std::uint32_t kMagic = 0x444F4D49;
constexpr std::size_t kHeader = 256;
constexpr std::size_t kLengthAt = 76;
constexpr std::size_t kPlatformAt = 160;
constexpr std::size_t kLongLengthAt = 184;
constexpr const char *kMaker = "dflow-acl-emulator";
constexpr std::uint32_t kDescription = 0;
constexpr std::uint32_t kWeights = 1;
constexpr std::uint32_t kGraph = 2;
constexpr std::size_t kEntry = 24;

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

Dims parse_dims(const std::string &text) {
    Dims found;
    if (text == "-") return found;
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ',');) found.push_back(std::strtoll(item.c_str(), nullptr, 10));
    return found;
}

std::vector<Dims> parse_many(const std::string &text) {
    std::vector<Dims> found;
    std::istringstream items(text);
    for (std::string item; std::getline(items, item, ';');) found.push_back(parse_dims(item));
    return found;
}

bool parse_tensor(std::istringstream &words, TensorInfo &tensor) {
    std::string dims;
    std::string ranges;
    if (!(words >> tensor.type >> tensor.format >> dims >> ranges)) return false;
    std::getline(words >> std::ws, tensor.name);
    tensor.dims = parse_dims(dims);
    for (const Dims &pair : parse_many(ranges)) {
        if (pair.size() == 2) tensor.ranges.emplace_back(pair[0], pair[1]);
    }
    return true;
}

Shapes shapes_of(const std::string &word) {
    if (word == "batch") return Shapes::batch;
    if (word == "image") return Shapes::image;
    if (word == "dims") return Shapes::dims;
    return word == "range" ? Shapes::range : Shapes::fixed;
}

bool parse_line(const std::string &line, Description &all) {
    std::istringstream words(line);
    std::string key;
    std::string text;
    words >> key;
    if (key == "name") return static_cast<bool>(std::getline(words >> std::ws, all.name)) || true;
    if (key == "soc") return static_cast<bool>(words >> all.soc);
    if (key == "work") return static_cast<bool>(words >> all.work_size);
    if (key == "weights") return static_cast<bool>(words >> all.weight_size);
    if (key == "half") return static_cast<bool>(words >> all.half);
    if (key == "shapes") {
        words >> text;
        all.shapes = shapes_of(text);
        return true;
    }
    if (key == "input" || key == "output") {
        std::vector<TensorInfo> &side = key == "input" ? all.inputs : all.outputs;
        side.emplace_back();
        return parse_tensor(words, side.back());
    }
    if (key == "gear") {
        std::string values;
        std::string inputs;
        std::string outputs;
        words >> values >> inputs >> outputs;
        all.gears.push_back(Gear{parse_dims(values), parse_many(inputs), parse_many(outputs)});
        return all.gears.back().inputs.size() == all.inputs.size()
                && all.gears.back().outputs.size() == all.outputs.size();
    }
    return key.empty();
}

bool parse_description(std::string_view text, Description &all) {
    std::istringstream lines{std::string(text)};
    std::string line;
    if (!std::getline(lines, line) || line != "acl-emulator-model 1") return false;
    while (std::getline(lines, line)) {
        if (!parse_line(line, all)) return false;
    }
    return !all.outputs.empty();
}

int damaged(const std::string &text) {
    return fail(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "E10041", "this is no whole OM file: " + text);
}

// Give each partition its bytes; the walk uses sizes only, as loaders do.
bool cut(std::string_view bytes, ModelFile &file, std::string_view &description) {
    std::size_t at = kHeader + 8;
    if (bytes.size() < at) return false;
    const auto count = number_at<std::uint32_t>(bytes, kHeader);
    if (count > 64 || bytes.size() < at + count * kEntry) return false;
    std::size_t data = at + count * kEntry;
    for (std::uint32_t i = 0; i < count; ++i, at += kEntry) {
        const auto type = number_at<std::uint32_t>(bytes, at);
        const auto size = number_at<std::uint64_t>(bytes, at + 16);
        if (size > bytes.size() - data) return false;
        const std::string_view part = bytes.substr(data, size);
        if (type == kDescription) description = part;
        if (type == kWeights) file.weights = part;
        if (type == kGraph) file.graph = part;
        data += size;
    }
    return true;
}

}  // namespace

Dims Gear::joined() const {
    Dims all;
    for (const Dims &dims : inputs) all.insert(all.end(), dims.begin(), dims.end());
    return all;
}

std::size_t Description::largest_gear() const {
    std::size_t best = 0;
    std::size_t most = 0;
    for (std::size_t i = 0; i < gears.size(); ++i) {
        std::size_t sum = 0;
        for (const Dims &dims : gears[i].inputs) sum += byte_size(ACL_UINT8, dims);
        if (sum > most) {
            most = sum;
            best = i;
        }
    }
    return best;
}

const Dims &Description::input_dims(std::size_t index, int gear) const {
    return gear < 0 || gears.empty() ? inputs[index].dims : gears[static_cast<std::size_t>(gear)].inputs[index];
}

const Dims &Description::output_dims(std::size_t index, int gear) const {
    return gear < 0 || gears.empty() ? outputs[index].dims : gears[static_cast<std::size_t>(gear)].outputs[index];
}

std::size_t Description::input_size(std::size_t index) const {
    if (index == inputs.size() && has_gears()) return gear_size();
    if (has_gears()) return byte_size(inputs[index].type, gears[largest_gear()].inputs[index]);
    Dims dims = inputs[index].dims;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] < 0 && i < inputs[index].ranges.size()) dims[i] = inputs[index].ranges[i].second;
    }
    return byte_size(inputs[index].type, dims);
}

std::size_t Description::output_size(std::size_t index) const {
    return byte_size(outputs[index].type, has_gears() ? gears[largest_gear()].outputs[index] : outputs[index].dims);
}

std::size_t Description::gear_size() const {
    std::size_t values = 0;
    if (shapes == Shapes::dims) {
        for (const TensorInfo &input : inputs) values += input.dims.size();
    } else {
        values = gears.front().values.size();
    }
    return values * sizeof(std::uint64_t);
}

int open_model(std::shared_ptr<const std::string> bytes, ModelFile &file) {
    const std::string_view view = *bytes;
    if (view.size() < kHeader) return damaged("it is shorter than its header");
    if (number_at<std::uint32_t>(view, 0) != kMagic) return damaged("its magic number is another one");
    const auto length = number_at<std::uint64_t>(view, kLongLengthAt);
    const std::uint64_t told = length != 0 ? length : number_at<std::uint32_t>(view, kLengthAt);
    if (told != view.size() - kHeader) {
        return damaged("its header says " + std::to_string(told) + " bytes, it has "
                + std::to_string(view.size() - kHeader));
    }
    if (std::strncmp(view.data() + kPlatformAt, kMaker, std::strlen(kMaker)) != 0) {
        return fail(ACL_ERROR_GE_LOAD_MODEL, "E19999",
                    "this OM file was compiled for hardware; the emulator runs only what its own atc compiled",
                    "run the emulator's atc on the source model");
    }
    std::string_view description;
    file.bytes = std::move(bytes);
    if (!cut(view, file, description) || !parse_description(description, file.description)) {
        return damaged("its parts do not fit together");
    }
    return 0;
}

int read_file(const char *path, std::shared_ptr<const std::string> &bytes) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream all;
    if (stream) all << stream.rdbuf();
    if (!stream || !all) {
        return fail(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, "E13001", std::string("the model file ") + path
                + " cannot be read");
    }
    bytes = std::make_shared<const std::string>(all.str());
    return 0;
}

}  // namespace emu
