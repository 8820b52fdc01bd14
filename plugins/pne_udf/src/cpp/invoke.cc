#include "invoke.h"

#include <algorithm>
#include <utility>

#include "log.h"

namespace dflow {
using FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
using FlowFunc::FLOW_FUNC_FAILED;
using FlowFunc::FLOW_FUNC_SUCCESS;

InvokedModel::InvokedModel(Bus *bus, InvokedSpec spec, bool is_aligned)
    : bus_(bus), spec_(std::move(spec)), is_aligned_(is_aligned)
{
}

int32_t InvokedModel::Run(const std::vector<std::shared_ptr<FlowFunc::FlowMsg>> &inputs,
                          std::vector<std::shared_ptr<FlowFunc::FlowMsg>> *outputs, int32_t timeout_ms,
                          const std::atomic<bool> &is_suspended)
{
    if (inputs.size() != spec_.inputs.size()) {
        Log(Level::kError, "RunFlowModel(%s): %zu inputs given, the model has %zu", spec_.key.c_str(), inputs.size(),
            spec_.inputs.size());
        return FLOW_FUNC_ERR_PARAM_INVALID;
    }
    std::vector<MessagePtr> messages;
    for (const auto &input : inputs) {
        messages.push_back(std::dynamic_pointer_cast<Message>(input));
        if (messages.back() == nullptr) {
            Log(Level::kError, "RunFlowModel(%s): input %zu was not made by the runtime", spec_.key.c_str(),
                messages.size() - 1);
            return FLOW_FUNC_ERR_PARAM_INVALID;
        }
    }
    const std::lock_guard<std::mutex> guard(lock_);
    cancelled_.store(0);
    running_.store(messages.empty() ? 0 : messages.back()->head().trans_id);
    int32_t code = Feed(messages);
    for (size_t i = 0; i < spec_.outputs.size() && code == FLOW_FUNC_SUCCESS; i++) {
        MessagePtr msg;
        code = Fetch(spec_.outputs[i], timeout_ms, is_suspended, &msg);
        if (code == FLOW_FUNC_SUCCESS) {
            outputs->push_back(std::move(msg));
        }
    }
    running_.store(0);
    return code;
}

// By reference, under the messages' own heads; never waits for room.
int32_t InvokedModel::Feed(const std::vector<MessagePtr> &inputs)
{
    for (size_t i = 0; i < inputs.size(); i++) {
        Head head = inputs[i]->head();
        head.data_flag &= kNull | kCustomId;
        for (const Route &route : spec_.inputs[i]) {
            Block block;
            int code = inputs[i]->Seal(head, MemberBytes(inputs[i]->aux()), false, bus_->alloc_limit(), &block);
            if (code != kOk) {
                return FLOW_FUNC_FAILED;
            }
            code = bus_->Put(route.Pick(head), block, 0);
            if (code != kOk) {
                bus_->Release(block);
                Log(Level::kError, "RunFlowModel(%s): input %zu takes no more", spec_.key.c_str(), i);
                return FLOW_FUNC_FAILED;
            }
        }
    }
    return FLOW_FUNC_SUCCESS;
}

int32_t InvokedModel::Fetch(uint32_t queue, int32_t timeout_ms, const std::atomic<bool> &is_suspended, MessagePtr *out)
{
    const int64_t until = timeout_ms < 0 ? INT64_MAX : Now() + timeout_ms * kMillisecond;
    for (;;) {
        const int64_t left = timeout_ms < 0 ? kSlice : std::max<int64_t>(0, std::min(kSlice, until - Now()));
        Block block;
        const int code = bus_->Get(queue, left, &block);
        if (code == kOk) {
            auto msg = std::make_shared<Message>(bus_, block);
            // What a call that timed out has left behind answers another question.
            if (is_aligned_ && msg->head().trans_id != running_.load()) {
                continue;
            }
            *out = std::move(msg);
            return FLOW_FUNC_SUCCESS;
        }
        if (code != DFLOW_E_TIMEOUT) {
            return code == DFLOW_E_CLOSED ? FLOW_FUNC_FAILED : FlowFunc::FLOW_FUNC_ERR_QUEUE_ERROR;
        }
        if (is_suspended.load()) {
            return FlowFunc::FLOW_FUNC_STATUS_REDEPLOYING;
        }
        if (bus_->is_stopping()) {
            return FlowFunc::FLOW_FUNC_STATUS_EXIT;
        }
        if (cancelled_.load() != 0 && cancelled_.load() == running_.load()) {
            return FLOW_FUNC_FAILED;
        }
        if (timeout_ms == 0) {
            return FLOW_FUNC_FAILED;
        }
        if (Now() >= until) {
            return FlowFunc::FLOW_FUNC_ERR_TIME_OUT_ERROR;
        }
    }
}
}  // namespace dflow
