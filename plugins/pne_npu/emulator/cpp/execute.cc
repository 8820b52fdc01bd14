// Running models: in the caller's thread, or as a task of a stream.
#include <algorithm>

#include "acl/acl_mdl.h"
#include "faults.h"
#include "model.h"
#include "settings.h"
#include "stream.h"
#include "tensor.h"
#include "timeline.h"

using namespace emu;

namespace {

constexpr std::size_t kSlack = 64;  // bytes a buffer may lack before it is refused

struct Run {
    ModelPtr model;
    int gear = -1;
    std::vector<Part> inputs;
    std::vector<Part> outputs;
    std::vector<BlockPtr> uses;
    std::shared_ptr<Dataset> results;
    std::vector<std::size_t> taken;  // outputs for which the library allocates
};

int wrong(const std::string &text) { return fail(ACL_ERROR_GE_PARAM_INVALID, "E13025", text); }

std::shared_ptr<DataBuffer> buffer_at(const Dataset &dataset, std::size_t index, int &code) {
    code = 0;
    std::shared_ptr<DataBuffer> buffer = data_buffers().find(dataset.buffers[index]);
    if (buffer == nullptr) {
        code = misuse(ACL_ERROR_INVALID_PARAM, "use-after-destroy",
                      "data buffer " + std::to_string(index) + " of a dataset has been destroyed");
    }
    return buffer;
}

// The memory of a slot, which must be the device's; `needed` bytes of it are used.
int device_part(const Model &model, const DataBuffer &buffer, std::size_t needed, const std::string &what, Run &run,
                Part &part) {
    if (buffer.size + kSlack < needed) {
        return wrong(what + " has " + std::to_string(buffer.size) + " bytes, the model needs "
                + std::to_string(needed));
    }
    int code = 0;
    const Span span = memory::span(buffer.data, std::max(needed, std::size_t{1}), what.c_str(), code);
    if (code != 0) return code;
    if (!span.is_device() && !settings().on_device) {
        return misuse(ACL_ERROR_GE_PARAM_INVALID, "host-pointer", what + " is host memory, not device memory");
    }
    if (span.block != nullptr && span.block->device != model.device && span.is_device()) {
        return misuse(ACL_ERROR_RT_PARAM_INVALID, "wrong-device", what + " is memory of device " +
                      std::to_string(span.block->device) + ", the model is on device " + std::to_string(model.device));
    }
    part.data = span.data;
    part.room = std::max(buffer.size, needed);
    if (span.block != nullptr) run.uses.push_back(span.block);
    return 0;
}

bool fits(const TensorInfo &info, const Dims &dims) {
    if (info.dims.size() == 1 && info.dims[0] == -2) return true;
    if (dims.size() != info.dims.size()) return false;
    for (std::size_t i = 0; i < dims.size(); ++i) {
        if (dims[i] < 0 || (info.dims[i] >= 0 && dims[i] != info.dims[i])) return false;
        if (i < info.ranges.size() && info.dims[i] < 0) {
            const auto &[low, high] = info.ranges[i];
            if (dims[i] < low || (high >= 0 && dims[i] > high)) return false;
        }
    }
    return true;
}

// The shape of an input of a model with free dimensions: the desc that was set, which must lie in the range.
int ranged_dims(const Dataset &dataset, std::size_t index, const TensorInfo &info, Dims &dims) {
    void *handle = index < dataset.descs.size() ? dataset.descs[index] : nullptr;
    const auto desc = handle == nullptr ? nullptr : tensor_descs().find(handle);
    if (desc == nullptr) {
        const bool is_free = std::any_of(info.dims.begin(), info.dims.end(), [](std::int64_t dim) { return dim < 0; });
        if (is_free) {
            return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "input " + std::to_string(index) +
                        " has free dimensions, and no tensor desc was set for it");
        }
        dims = info.dims;
        return 0;
    }
    if (!fits(info, desc->dims)) {
        return fail(ACL_ERROR_INVALID_PARAM, "EH0001", "the shape set for input " + std::to_string(index) +
                    " is outside of what the model was compiled for");
    }
    dims = desc->dims;
    return 0;
}

int choose_gear(const Model &model, const Dataset &input, int &gear) {
    gear = -1;
    if (!model.description.has_gears()) return 0;
    gear = static_cast<int>(model.description.largest_gear());
    if (input.gear < 0) return 0;
    if (input.marked_for != model.id) {
        return misuse(ACL_ERROR_GE_PARAM_INVALID, "foreign-dataset",
                      "a gear was chosen in this dataset for model " + std::to_string(input.marked_for));
    }
    gear = input.gear;
    return 0;
}

int gather_inputs(const Dataset &input, Run &run) {
    const Description &all = run.model->description;
    int code = choose_gear(*run.model, input, run.gear);
    for (std::size_t i = 0; code == 0 && i < all.inputs.size(); ++i) {
        Part part;
        const auto buffer = buffer_at(input, i, code);
        if (code != 0) return code;
        if (all.shapes == Shapes::range) code = ranged_dims(input, i, all.inputs[i], part.dims);
        else part.dims = all.input_dims(i, run.gear);
        if (code != 0) return code;
        part.bytes = byte_size(all.inputs[i].type, part.dims);
        code = device_part(*run.model, *buffer, part.bytes, "input " + std::to_string(i), run, part);
        run.inputs.push_back(std::move(part));
    }
    return code;
}

int gather_outputs(const Dataset &output, bool may_allocate, Run &run) {
    const Description &all = run.model->description;
    int code = 0;
    for (std::size_t i = 0; i < all.outputs.size(); ++i) {
        Part part;
        const auto buffer = buffer_at(output, i, code);
        if (code != 0) return code;
        part.dims = all.output_dims(i, run.gear);
        part.known = std::none_of(part.dims.begin(), part.dims.end(), [](std::int64_t dim) { return dim < 0; });
        part.bytes = part.known ? byte_size(all.outputs[i].type, part.dims) : 0;
        if (buffer->data == nullptr && buffer->size == 0 && may_allocate) {
            run.taken.push_back(i);
        } else if ((code = device_part(*run.model, *buffer, part.bytes, "output " + std::to_string(i), run,
                part)) != 0) {
            return code;
        }
        run.outputs.push_back(std::move(part));
    }
    return 0;
}

int prepare(std::uint32_t id, const aclmdlDataset *input, aclmdlDataset *output, bool may_allocate, Run &run) {
    ACL_NOT_NULL(input);
    ACL_NOT_NULL(output);
    int code = 0;
    run.model = model_of(id, code);
    if (run.model == nullptr) return code;
    if (run.model->driver != nullptr) return wrong("the model is driven by queues; it cannot be executed");
    const ContextPtr context = current_context();
    if (context == nullptr) return fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "this thread has no current context");
    if (context->device != run.model->device) {
        return misuse(ACL_ERROR_RT_MODEL_CONTEXT, "wrong-context", "the model was loaded on another device");
    }
    const auto inputs = datasets().find(input);
    run.results = datasets().find(output);
    if (inputs == nullptr || run.results == nullptr) {
        return misuse(ACL_ERROR_INVALID_PARAM, "use-after-destroy", "a dataset does not live");
    }
    const Description &all = run.model->description;
    if (inputs->buffers.size() != all.input_count() || run.results->buffers.size() != all.outputs.size()) {
        return wrong("the model has " + std::to_string(all.input_count()) + " inputs and " +
                     std::to_string(all.outputs.size()) + " outputs, the datasets have " +
                     std::to_string(inputs->buffers.size()) + " and " + std::to_string(run.results->buffers.size()));
    }
    code = gather_inputs(*inputs, run);
    return code != 0 ? code : gather_outputs(*run.results, may_allocate, run);
}

// Give the library's own memory to outputs that came without.
int allocate_outputs(Run &run) {
    for (const std::size_t index : run.taken) {
        const auto buffer = data_buffers().find(run.results->buffers[index]);
        Part &part = run.outputs[index];
        const auto take = [buffer, device = run.model->device](std::size_t size) -> char * {
            const BlockPtr block = memory::take_device(device, std::max(size, std::size_t{1}), 32);
            if (block == nullptr) return nullptr;
            buffer->data = block->address;
            buffer->size = size;
            return block->data;
        };
        if (!part.known) {
            part.take = take;
            continue;
        }
        part.data = take(part.bytes);
        part.room = part.bytes;
        if (part.data == nullptr) return fail(ACL_ERROR_GE_MEMORY_ALLOCATION, "E19999",
                "no device memory for an output");
    }
    return 0;
}

//   stream: on which it runs, or nullptr.
int perform(Run &run, std::string &why, Stream *stream) {
    Model &model = *run.model;
    if (model.busy.exchange(true)) {
        why = "model " + std::to_string(model.id) + " is executed by two at the same time; lock it, or load it twice";
        return task_misuse(ACL_ERROR_FAILURE, "concurrent-execute", why, trail());
    }
    const int fault = faults::armed() ? faults::at_task("execute", model.device, stream == nullptr ? nullptr : is_dropped,
            stream) : 0;
    const bool done = fault != 0 || run_model(model, run.inputs, run.outputs, why);
    model.busy = false;
    if (fault != 0) return fault;
    if (!done) return ACL_ERROR_RT_MODEL_EXECUTE;
    ++timeline::counters().executes;
    const Description &all = model.description;
    if (all.shapes != Shapes::fixed) {
        for (std::size_t i = 0; i < run.outputs.size(); ++i) {
            renew_desc(*run.results, i, all.outputs[i].type, all.outputs[i].format, run.outputs[i].dims);
        }
    }
    return 0;
}

int execute_now(std::uint32_t id, const aclmdlDataset *input, aclmdlDataset *output) {
    Run run;
    int code = prepare(id, input, output, true, run);
    if (code != 0) return code;
    if (is_lost(run.model->device)) return fail(ACL_ERROR_RT_LOST_HEARTBEAT, "EE9999", "the device is lost");
    if ((code = allocate_outputs(run)) != 0) return code;
    std::string why;
    const timeline::Slice slice(run.model->device, 0, run.model->description.name.c_str(), 0);
    code = perform(run, why, nullptr);
    if (code != 0 && why.empty()) why = std::string("the execution failed: ") + code_name(code);
    return code == 0 ? 0 : fail(code, "E19999", why);
}

bool reads(const Run &run, const Part &output) {
    return std::any_of(run.inputs.begin(), run.inputs.end(), [&](const Part &input) {
        return input.data < output.data + output.room && output.data < input.data + input.bytes;
    });
}

// Nobody may take what lies in the outputs' memory for results before the run.
void poison_outputs(const Run &run) {
    const bool idle = std::all_of(run.uses.begin(), run.uses.end(), [](const BlockPtr &one) { return one->pending == 0; });
    if (settings().mode == Mode::lenient || !idle) return;
    for (const Part &part : run.outputs) {
        if (part.data != nullptr && !reads(run, part)) memory::poison(part.data, part.bytes);
    }
}

Task execute_task(const std::shared_ptr<Run> &run, const StreamPtr &target) {
    Task task;
    task.kind = "execute";
    task.label = run->model->description.name;
    task.uses = run->uses;
    task.made = trail();
    ++run->model->pending;
    // The count goes down with the task, whether it ran or was dropped.
    task.brings_faults = true;
    const std::weak_ptr<Stream> own = target;
    task.run = [run, own, guard = std::shared_ptr<void>(nullptr, [run](void *) { --run->model->pending; })] {
        std::string why;
        return perform(*run, why, own.lock().get());
    };
    return task;
}

}  // namespace

extern "C" {

aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output) {
    ACL_CALL(aclmdlExecute);
    return execute_now(modelId, input, output);
}

aclError aclmdlExecuteV2(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream,
                         const aclmdlExecConfigHandle *handle) {
    ACL_CALL(aclmdlExecuteV2);
    ACL_NOT_NULL(handle);
    int code = 0;
    const int timeout = stream_timeout(handle, code);
    if (code != 0) return code;
    auto run = std::make_shared<Run>();
    if ((code = prepare(modelId, input, output, true, *run)) != 0) return code;
    const StreamPtr target = stream_of(stream, true, code);
    if (target == nullptr || (code = allocate_outputs(*run)) != 0) return code;
    code = submit(target, execute_task(run, target));
    return code != 0 ? code : synchronize(target, timeout, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
}

aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream) {
    ACL_CALL(aclmdlExecuteAsync);
    auto run = std::make_shared<Run>();
    int code = prepare(modelId, input, output, false, *run);
    if (code != 0) return code;
    const StreamPtr target = stream_of(stream, true, code);
    if (target == nullptr) return code;
    poison_outputs(*run);
    return submit(target, execute_task(run, target));
}

}  // extern "C"
