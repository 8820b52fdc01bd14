#include "backend.h"

#include <dlfcn.h>
#include <signal.h>

#include <cstring>
#include <fstream>
#include <mutex>

#include "settings.h"

namespace emu {
namespace {

// The few declarations of OpenVINO's C interface that are used.
struct ov_core;
struct ov_model;
struct ov_compiled;
struct ov_request;
struct ov_tensor;
struct ov_port;
struct ov_shape {
    std::int64_t rank;
    std::int64_t *dims;
};

struct Library {
    int (*core_create)(ov_core **);
    int (*read_model)(const ov_core *, const char *, std::size_t, const ov_tensor *, ov_model **);
    int (*compile)(const ov_core *, const ov_model *, const char *, std::size_t, ov_compiled **, ...);
    int (*make_request)(const ov_compiled *, ov_request **);
    int (*input_port)(const ov_compiled *, std::size_t, ov_port **);
    int (*output_port)(const ov_compiled *, std::size_t, ov_port **);
    int (*port_type)(const ov_port *, int *);
    void (*port_free)(ov_port *);
    int (*set_input)(ov_request *, std::size_t, const ov_tensor *);
    int (*set_output)(ov_request *, std::size_t, const ov_tensor *);
    int (*get_output)(const ov_request *, std::size_t, ov_tensor **);
    int (*infer)(ov_request *);
    int (*tensor_from)(int, ov_shape, void *, ov_tensor **);
    int (*tensor_make)(int, ov_shape, ov_tensor **);
    int (*tensor_shape)(const ov_tensor *, ov_shape *);
    int (*tensor_bytes)(const ov_tensor *, std::size_t *);
    int (*tensor_data)(const ov_tensor *, void **);
    void (*tensor_free)(ov_tensor *);
    int (*shape_free)(ov_shape *);
    void (*model_free)(ov_model *);
    void (*compiled_free)(ov_compiled *);
    void (*request_free)(ov_request *);
    const char *(*last_error)();
    ov_core *core = nullptr;
    int u8 = 0;
    std::string fault;
};

// Libraries that OpenVINO loads put a signal stack on the thread and take it away with themselves.
class KeptSignalStack {
public:
    KeptSignalStack() { sigaltstack(nullptr, &before_); }
    ~KeptSignalStack() { sigaltstack(&before_, nullptr); }
    KeptSignalStack(const KeptSignalStack &) = delete;
    KeptSignalStack &operator=(const KeptSignalStack &) = delete;

private:
    stack_t before_{};
};

// The library's path: as told, or as written beside this library when it was installed.
std::string library_path() {
    if (!settings().openvino.empty()) return settings().openvino;
    Dl_info here{};
    if (dladdr(reinterpret_cast<void *>(&library_path), &here) != 0 && here.dli_fname != nullptr) {
        const std::string own = here.dli_fname;
        std::ifstream file(own.substr(0, own.find_last_of('/') + 1) + "../etc/openvino");
        std::string line;
        if (std::getline(file, line) && !line.empty()) return line;
    }
    return "libopenvino_c.so";
}

template <class F>
void take(void *handle, const char *name, F *&target, std::string &fault) {
    target = reinterpret_cast<F *>(dlsym(handle, name));
    if (target == nullptr && fault.empty()) fault = std::string("it has no function ") + name;
}

void take_all(void *handle, Library &ov) {
    take(handle, "ov_core_create", ov.core_create, ov.fault);
    take(handle, "ov_core_read_model_from_memory_buffer", ov.read_model, ov.fault);
    take(handle, "ov_core_compile_model", ov.compile, ov.fault);
    take(handle, "ov_compiled_model_create_infer_request", ov.make_request, ov.fault);
    take(handle, "ov_compiled_model_input_by_index", ov.input_port, ov.fault);
    take(handle, "ov_compiled_model_output_by_index", ov.output_port, ov.fault);
    take(handle, "ov_port_get_element_type", ov.port_type, ov.fault);
    take(handle, "ov_output_const_port_free", ov.port_free, ov.fault);
    take(handle, "ov_infer_request_set_input_tensor_by_index", ov.set_input, ov.fault);
    take(handle, "ov_infer_request_set_output_tensor_by_index", ov.set_output, ov.fault);
    take(handle, "ov_infer_request_get_output_tensor_by_index", ov.get_output, ov.fault);
    take(handle, "ov_infer_request_infer", ov.infer, ov.fault);
    take(handle, "ov_tensor_create_from_host_ptr", ov.tensor_from, ov.fault);
    take(handle, "ov_tensor_create", ov.tensor_make, ov.fault);
    take(handle, "ov_tensor_get_shape", ov.tensor_shape, ov.fault);
    take(handle, "ov_tensor_get_byte_size", ov.tensor_bytes, ov.fault);
    take(handle, "ov_tensor_data", ov.tensor_data, ov.fault);
    take(handle, "ov_tensor_free", ov.tensor_free, ov.fault);
    take(handle, "ov_shape_free", ov.shape_free, ov.fault);
    take(handle, "ov_model_free", ov.model_free, ov.fault);
    take(handle, "ov_compiled_model_free", ov.compiled_free, ov.fault);
    take(handle, "ov_infer_request_free", ov.request_free, ov.fault);
    take(handle, "ov_get_last_err_msg", ov.last_error, ov.fault);
}

// The number this version gives to bytes: the element type with one byte a piece that is named first after 64-bit ones
// differs between versions, so it is looked for.
int find_bytes_type(const Library &ov) {
    std::int64_t eight = 8;
    for (int type = 10; type < 24; ++type) {
        ov_tensor *tensor = nullptr;
        std::size_t size = 0;
        if (ov.tensor_make(type, ov_shape{1, &eight}, &tensor) != 0) continue;
        ov.tensor_bytes(tensor, &size);
        ov.tensor_free(tensor);
        if (size == 8) return type;
    }
    return 16;
}

Library open_library() {
    Library ov{};
    const std::string path = library_path();
    const KeptSignalStack kept;
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        ov.fault = std::string("OpenVINO's C library cannot be opened: ") + dlerror()
                + "; set ACL_EMULATOR_OPENVINO to its path";
        return ov;
    }
    take_all(handle, ov);
    if (!ov.fault.empty()) {
        ov.fault = path + ": " + ov.fault;
        return ov;
    }
    if (ov.core_create(&ov.core) != 0) {
        ov.fault = path + ": " + ov.last_error();
        return ov;
    }
    ov.u8 = find_bytes_type(ov);
    return ov;
}

const Library &library() {
    static const Library &opened = *new Library(open_library());
    return opened;
}

// A tensor bound to a slot of a request; made again only where memory or shape changed.
struct Bound {
    char *data = nullptr;
    Dims dims;
    ov_tensor *tensor = nullptr;
};

class OpenVinoSession final : public Session {
public:
    OpenVinoSession(const Library &ov, ov_model *model, ov_compiled *compiled, ov_request *request, std::size_t inputs,
                    std::size_t outputs)
        : ov_(ov), model_(model), compiled_(compiled), request_(request), inputs_(inputs), outputs_(outputs) {
        input_types_ = types(ov.input_port, inputs);
        output_types_ = types(ov.output_port, outputs);
    }

    ~OpenVinoSession() override {
        for (std::vector<Bound> *side : {&inputs_, &outputs_}) {
            for (Bound &bound : *side) {
                if (bound.tensor != nullptr) ov_.tensor_free(bound.tensor);
            }
        }
        ov_.request_free(request_);
        ov_.compiled_free(compiled_);
        ov_.model_free(model_);
    }

    bool run(std::vector<Part> &inputs, std::vector<Part> &outputs, std::string &why) override {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (!bind(inputs[i], inputs_[i], input_types_[i], i, ov_.set_input)) return failed(why);
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (outputs[i].known && !bind(outputs[i], outputs_[i], output_types_[i], i,
                    ov_.set_output)) return failed(why);
        }
        if (ov_.infer(request_) != 0) return failed(why);
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            if (!outputs[i].known && !collect(i, outputs[i], why)) return false;
        }
        return true;
    }

private:
    std::vector<int> types(int (*port_of)(const ov_compiled *, std::size_t, ov_port **), std::size_t count) {
        std::vector<int> found(count, 0);
        for (std::size_t i = 0; i < count; ++i) {
            ov_port *port = nullptr;
            if (port_of(compiled_, i, &port) != 0) continue;
            ov_.port_type(port, &found[i]);
            ov_.port_free(port);
        }
        return found;
    }

    bool bind(Part &part, Bound &bound, int type, std::size_t index,
              int (*set)(ov_request *, std::size_t, const ov_tensor *)) {
        if (bound.tensor != nullptr && bound.data == part.data && bound.dims == part.dims) return true;
        if (bound.tensor != nullptr) ov_.tensor_free(bound.tensor);
        bound = Bound{part.data, part.dims, nullptr};
        const ov_shape shape{static_cast<std::int64_t>(bound.dims.size()), bound.dims.data()};
        if (ov_.tensor_from(type, shape, bound.data, &bound.tensor) != 0) return false;
        return set(request_, index, bound.tensor) == 0;
    }

    bool collect(std::size_t index, Part &part, std::string &why) {
        ov_tensor *tensor = nullptr;
        if (ov_.get_output(request_, index, &tensor) != 0) return failed(why);
        ov_shape shape{};
        void *data = nullptr;
        ov_.tensor_shape(tensor, &shape);
        ov_.tensor_bytes(tensor, &part.bytes);
        ov_.tensor_data(tensor, &data);
        part.dims.assign(shape.dims, shape.dims + shape.rank);
        ov_.shape_free(&shape);
        if (part.data == nullptr && part.take) {
            part.data = part.take(part.bytes);
            part.room = part.data == nullptr ? 0 : part.bytes;
        }
        const bool fits = part.bytes <= part.room;
        if (fits && part.bytes > 0) std::memcpy(part.data, data, part.bytes);
        ov_.tensor_free(tensor);
        if (!fits) {
            why = "output " + std::to_string(index) + " needs " + std::to_string(part.bytes)
                    + " bytes, its buffer has " +
                  std::to_string(part.room);
        }
        return fits;
    }

    bool failed(std::string &why) const {
        const char *text = ov_.last_error();
        why = text == nullptr ? "OpenVINO failed" : text;
        return false;
    }

    const Library &ov_;
    ov_model *model_;
    ov_compiled *compiled_;
    ov_request *request_;
    std::vector<Bound> inputs_;
    std::vector<Bound> outputs_;
    std::vector<int> input_types_;
    std::vector<int> output_types_;
};

}  // namespace

std::unique_ptr<Session> make_session(const ModelFile &file, std::string &why) {
    const Library &ov = library();
    if (!ov.fault.empty()) {
        why = ov.fault;
        return nullptr;
    }
    static std::mutex &mutex = *new std::mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    const KeptSignalStack kept;
    ov_tensor *weights = nullptr;
    ov_model *model = nullptr;
    ov_compiled *compiled = nullptr;
    ov_request *request = nullptr;
    auto length = static_cast<std::int64_t>(file.weights.size());
    if (ov.tensor_from(ov.u8, ov_shape{1, &length}, const_cast<char *>(file.weights.data()),
            &weights) != 0) weights = nullptr;
    const std::string threads = std::to_string(settings().threads);
    const bool done = ov.read_model(ov.core, file.graph.data(), file.graph.size(), weights, &model) == 0 &&
                      ov.compile(ov.core, model, "CPU", 8, &compiled, "INFERENCE_NUM_THREADS", threads.c_str(),
                              "NUM_STREAMS",
                                 "1", "INFERENCE_PRECISION_HINT", "f32", "PERFORMANCE_HINT", "LATENCY") == 0 &&
                      ov.make_request(compiled, &request) == 0;
    if (weights != nullptr) ov.tensor_free(weights);
    if (!done) {
        why = ov.last_error();
        if (compiled != nullptr) ov.compiled_free(compiled);
        if (model != nullptr) ov.model_free(model);
        return nullptr;
    }
    return std::make_unique<OpenVinoSession>(ov, model, compiled, request, file.description.inputs.size(),
                                             file.description.outputs.size());
}

}  // namespace emu
