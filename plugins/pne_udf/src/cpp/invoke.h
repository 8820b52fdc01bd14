// Models given by AddInvokedClosure: what RunFlowModel feeds and fetches.
#ifndef DFLOW_UDF_INVOKE_H
#define DFLOW_UDF_INVOKE_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cancelled.h"
#include "outputs.h"

namespace dflow {
struct InvokedSpec {
    std::string key;
    std::vector<std::vector<Route>> inputs;
    std::vector<uint32_t> outputs; // queues
};

// One model. Calls come one after the other.
//
// In there, messages keep the transaction of the caller; the number of the call is their label, which joins pair by, and
// their step id, by which its answers are known. As in dflow_core/executor/node/called_graph.py.
class InvokedModel {
public:
    InvokedModel(Bus *bus, InvokedSpec spec, const Cancelled &board);

    // Feed the inputs, wait for each output up to `timeout_ms` (-1 for ever), append them: a null message where a
    // branch was not taken, the first of several parts. An error in there is logged, and gives its code.
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
    int Get(uint32_t queue, int64_t wait_ns, Block *block, int64_t *held_up);
    int32_t Judge(MessagePtr msg, MessagePtr *out);
    void GiveBack(const Head &caller, Message *msg) const;

    Bus *bus_;
    InvokedSpec spec_;
    Cancelled board_;
    std::mutex lock_;
    uint32_t number_;
    std::atomic<uint64_t> running_{0};
    std::atomic<uint64_t> cancelled_{0};
};

using InvokedModels = std::map<std::string, std::unique_ptr<InvokedModel>>;
}  // namespace dflow

#endif  // DFLOW_UDF_INVOKE_H
