#include "invoke.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "log.h"

namespace dflow {
using FlowFunc::FLOW_FUNC_ERR_PARAM_INVALID;
using FlowFunc::FLOW_FUNC_FAILED;
using FlowFunc::FLOW_FUNC_SUCCESS;

namespace {
// What came of the call so far asks for another message.
constexpr int32_t kGoOn = -1;

// What failed, as it lies in the aux section of a message.
std::string Story(const Message &msg)
{
    const View aux = msg.aux();
    const uint64_t begin = sizeof(uint32_t) + MemberCount(aux) * kMemberSize;
    return aux.size <= begin ? "no reason given"
                             : std::string(reinterpret_cast<const char *>(aux.data) + begin, aux.size - begin);
}
}  // namespace

// Answers to a former life of this process may still come; they must not fit a call of this one.
InvokedModel::InvokedModel(Bus *bus, InvokedSpec spec, const Cancelled &board)
    : bus_(bus), spec_(std::move(spec)), board_(board), number_(std::random_device()())
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
    number_ = number_ == UINT32_MAX ? 1 : number_ + 1;
    cancelled_.store(0);
    running_.store(messages.empty() ? 0 : messages.front()->head().trans_id);
    int32_t code = Feed(messages);
    for (size_t i = 0; i < spec_.outputs.size() && code == FLOW_FUNC_SUCCESS; i++) {
        MessagePtr msg;
        code = Fetch(spec_.outputs[i], timeout_ms, is_suspended, &msg);
        if (code == FLOW_FUNC_SUCCESS) {
            GiveBack(messages.empty() ? msg->head() : messages.front()->head(), msg.get());
            outputs->push_back(std::move(msg));
        }
    }
    running_.store(0);
    return code;
}

// Under the transaction of the first input, as parts of this call; never waits for room.
int32_t InvokedModel::Feed(const std::vector<MessagePtr> &inputs)
{
    for (size_t i = 0; i < inputs.size(); i++) {
        Head head = inputs[i]->head();
        head.data_flag &= kNull | kCustomId;
        head.trans_id = inputs[0]->head().trans_id;
        head.data_label = head.step_id = number_;
        head.token = RootToken(number_);
        for (Route &route : spec_.inputs[i]) {
            Block block;
            int code = inputs[i]->Seal(head, View(), false, bus_->alloc_limit(), &block);
            if (code != kOk) {
                return FLOW_FUNC_FAILED;
            }
            code = bus_->Put(route.Pick(head, bus_), block, 0);
            if (code != kOk) {
                bus_->Release(block);
                Log(Level::kError, "RunFlowModel(%s): input %zu takes no more", spec_.key.c_str(), i);
                return FLOW_FUNC_FAILED;
            }
        }
    }
    return FLOW_FUNC_SUCCESS;
}

// What a message at an output says: the answer, a failure, or nothing about this call.
int32_t InvokedModel::Judge(MessagePtr msg, MessagePtr *out)
{
    if (msg->head().step_id != number_) { // left behind by a call that timed out: it answers another question
        return kGoOn;
    }
    if (msg->Is(kError)) {
        const int32_t code = msg->GetRetCode();
        Log(Level::kError, "RunFlowModel(%s): %s", spec_.key.c_str(), Story(*msg).c_str());
        const bool is_users =
            code >= FlowFunc::FLOW_FUNC_ERR_USER_DEFINE_START && code <= FlowFunc::FLOW_FUNC_ERR_USER_DEFINE_END;
        return is_users ? code : FLOW_FUNC_FAILED;
    }
    if (msg->Is(kSkip | kEnd)) { // a branch that was not taken, or no part at all
        Head head = msg->head();
        head.data_flag = (head.data_flag & kCustomId) | kNull;
        msg = std::make_shared<Message>(bus_, head);
    }
    *out = std::move(msg);
    return FLOW_FUNC_SUCCESS;
}

// Make it a message of the caller's transaction, not of the call.
void InvokedModel::GiveBack(const Head &caller, Message *msg) const
{
    msg->head().trans_id = caller.trans_id;
    msg->head().data_label = caller.data_label;
    msg->head().step_id = caller.step_id;
    msg->head().token = caller.token;
}

// A message, or a wait, in which the function counts as waiting.
int InvokedModel::Get(uint32_t queue, int64_t wait_ns, Block *block, int64_t *held_up)
{
    const GateRest rest(bus_->gate(), held_up);
    return bus_->Get(queue, wait_ns, block);
}

int32_t InvokedModel::Fetch(uint32_t queue, int32_t timeout_ms, const std::atomic<bool> &is_suspended, MessagePtr *out)
{
    int64_t until = timeout_ms < 0 ? INT64_MAX : Now() + timeout_ms * kMillisecond;
    for (;;) {
        const int64_t left = timeout_ms < 0 ? kSlice : std::max<int64_t>(0, std::min(kSlice, until - Now()));
        Block block;
        int64_t held_up = 0;
        const int code = Get(queue, left, &block, &held_up);
        until += timeout_ms < 0 ? 0 : held_up;
        if (code == kOk) {
            const int32_t verdict = Judge(std::make_shared<Message>(bus_, block), out);
            if (verdict != kGoOn) {
                return verdict;
            }
            continue;
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
        if ((cancelled_.load() != 0 && cancelled_.load() == running_.load()) || board_.Has(running_.load())) {
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
