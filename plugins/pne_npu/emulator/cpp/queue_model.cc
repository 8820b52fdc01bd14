// A message of a queue holds the bytes of one input or output, without a descriptor. A run whose inputs do not fit, or
// that fails, gives messages of no bytes, so that outputs stay in step with inputs.
#include "queue_model.h"

#include <atomic>
#include <thread>

#include "acl/acl_error_codes.h"
#include "queue.h"
#include "tensor.h"
#include "timeline.h"

namespace emu {
namespace {

class Driver {
public:
    Driver(Model &model, const ModelQueues &queues) : model_(model), queues_(queues), thread_([this] { work(); }) {}

    ~Driver() {
        stopping_ = true;
        queues::wake();
        thread_.join();
    }

    Driver(const Driver &) = delete;
    Driver &operator=(const Driver &) = delete;

private:
    void work() {
        while (one_run()) {}
    }

    // Whether there may be another.
    bool one_run() {
        const auto stopped = [this] { return stopping_.load(); };
        std::vector<MessagePtr> inputs(queues_.inputs.size());
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            if (queues::take(queues_.inputs[i], inputs[i], -1, {}, stopped) != queues::Waited::done) return false;
        }
        std::vector<MessagePtr> outputs = results();
        if (outputs.empty()) return false;
        if (!is_lost(model_.device) && run(inputs, outputs)) {
            for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i]->length = outputs[i]->area->capacity;
        }
        for (const MessagePtr &message : inputs) drop_handles(message);
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            outputs[i]->user = inputs.back()->user;
            if (queues::put(queues_.outputs[i], outputs[i], -1, stopped) != queues::Waited::done) return false;
        }
        return true;
    }

    std::vector<MessagePtr> results() {
        const Description &all = model_.description;
        std::vector<MessagePtr> made;
        for (std::size_t i = 0; i < all.outputs.size(); ++i) {
            MessagePtr message = make_message(model_.device, byte_size(all.outputs[i].type, all.outputs[i].dims));
            if (message == nullptr) {
                note("queue-model", "the device has no memory for an output of model " + std::to_string(model_.id));
                return {};
            }
            made.push_back(std::move(message));
        }
        return made;
    }

    bool run(const std::vector<MessagePtr> &inputs, const std::vector<MessagePtr> &outputs) {
        const Description &all = model_.description;
        std::vector<Part> from(inputs.size());
        std::vector<Part> to(outputs.size());
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            from[i] = part(*inputs[i], all.inputs[i]);
            if (inputs[i]->length == from[i].bytes) continue;
            note("queue-model", "input " + std::to_string(i) + " takes " + std::to_string(from[i].bytes) + " bytes, the "
                    "message has " + std::to_string(inputs[i]->length), &inputs[i]->made);
            return false;
        }
        for (std::size_t i = 0; i < outputs.size(); ++i) to[i] = part(*outputs[i], all.outputs[i]);
        std::string why;
        const timeline::Slice slice(model_.device, 0, all.name.c_str(), 0);
        if (!run_model(model_, from, to, why)) {
            note("queue-model", "a run failed: " + why);
            return false;
        }
        ++timeline::counters().executes;
        return true;
    }

    static Part part(const Message &message, const TensorInfo &info) {
        Part made;
        made.data = message.area->block->data;
        made.room = message.area->capacity;
        made.dims = info.dims;
        made.bytes = byte_size(info.type, info.dims);
        return made;
    }

    Model &model_;
    const ModelQueues queues_;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace

int check_queues(const Description &description, const ModelQueues &queues) {
    if (queues.inputs.size() != description.input_count() || queues.outputs.size() != description.outputs.size()) {
        return fail(ACL_ERROR_GE_EXEC_MODEL_QUEUE_ID_INVALID, "E19999", "the model has "
                + std::to_string(description.input_count()) + " inputs and " + std::to_string(description.outputs.size())
                + " outputs, there are " + std::to_string(queues.inputs.size()) + " and "
                + std::to_string(queues.outputs.size()) + " queues");
    }
    if (description.shapes != Shapes::fixed) {
        return fail(ACL_ERROR_API_NOT_SUPPORT, "EH0001", "only models with fixed sizes are driven by queues here");
    }
    for (const auto *ids : {&queues.inputs, &queues.outputs}) {
        for (const std::uint32_t id : *ids) {
            if (const int code = queues::check(id); code != 0) return code;
        }
    }
    return 0;
}

std::shared_ptr<void> drive(Model &model, const ModelQueues &queues) { return std::make_shared<Driver>(model, queues); }

}  // namespace emu
