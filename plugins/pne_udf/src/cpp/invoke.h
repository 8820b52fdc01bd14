// Models given by AddInvokedClosure: what RunFlowModel feeds and fetches.
#ifndef DFLOW_UDF_INVOKE_H
#define DFLOW_UDF_INVOKE_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "outputs.h"

namespace dflow {
struct InvokedSpec {
    std::string key;
    std::vector<std::vector<Route>> inputs;
    std::vector<uint32_t> outputs; // queues
};

// One model. Calls come one after the other.
class InvokedModel {
public:
    InvokedModel(Bus *bus, InvokedSpec spec, bool is_aligned);

    // Feed the inputs, wait for each output up to `timeout_ms` (-1 for ever), append them.
    int32_t Run(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs,
                std::vector<std::shared_ptr<FlowFunc::FlowMsg>> *outputs, int32_t timeout_ms,
                const std::atomic<bool> &is_suspended);

    // What is being run for a transaction fails now.
    void Cancel(uint64_t trans_id)
    {
        cancelled_.store(trans_id);
    }

private:
    int32_t Feed(const std::vector<MessagePtr> &inputs);
    int32_t Fetch(uint32_t queue, int32_t timeout_ms, const std::atomic<bool> &is_suspended, MessagePtr *out);

    Bus *bus_;
    InvokedSpec spec_;
    bool is_aligned_;
    std::mutex lock_;
    std::atomic<uint64_t> running_{0};
    std::atomic<uint64_t> cancelled_{0};
};

using InvokedModels = std::map<std::string, std::unique_ptr<InvokedModel>>;
}  // namespace dflow

#endif  // DFLOW_UDF_INVOKE_H
