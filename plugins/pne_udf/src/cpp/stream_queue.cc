#include "stream_queue.h"

#include <algorithm>
#include <vector>

namespace dflow {
namespace {
// A negative time other than -1 stands for one of upstream's slices.
constexpr int64_t kOddTimeout = kSecond;
}  // namespace

int32_t StreamQueue::Dequeue(std::shared_ptr<FlowFunc::FlowMsg> &flowMsg, int32_t timeout)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const int64_t limit = timeout >= 0 ? timeout * kMillisecond : kOddTimeout;
    int64_t until = timeout == -1 ? INT64_MAX : Now() + limit;
    for (;;) {
        if (node_->is_suspended.load()) {
            return FlowFunc::FLOW_FUNC_STATUS_REDEPLOYING;
        }
        if (node_->bus->is_stopping()) {
            return FlowFunc::FLOW_FUNC_STATUS_EXIT;
        }
        Block block;
        const int64_t left = timeout == -1 ? kSlice : std::max<int64_t>(0, std::min(kSlice, until - Now()));
        int64_t held_up = 0;
        const int code = TakeAtRest(left, &block, &held_up);
        until += timeout == -1 ? 0 : held_up;
        if (code == kOk && node_->is_suspended.load()) {
            node_->bus->Release(block);
            continue;
        }
        if (code == DFLOW_E_CLOSED) {
            is_ended_.store(true);
            return FlowFunc::FLOW_FUNC_STATUS_EXIT;
        }
        if (code == DFLOW_E_TIMEOUT) {
            if (timeout != -1 && Now() >= until) {
                return FlowFunc::FLOW_FUNC_ERR_TIME_OUT_ERROR;
            }
            continue;
        }
        if (code != kOk) {
            return FlowFunc::FLOW_FUNC_ERR_QUEUE_ERROR;
        }
        const MessagePtr msg = Wanted(std::make_shared<Message>(node_->bus, block));
        (void)call_->Owe(msg);
        if (!msg->Is(kSkip | kEnd | kError)) {
            flowMsg = msg;
            return msg->GetRetCode();
        }
    }
}

// A message, or a skip in its place if its transaction was cancelled. A function that takes from several queues may have
// another part of it already, and would pair what is left with the next: it gets all.
MessagePtr StreamQueue::Wanted(MessagePtr msg)
{
    const bool is_whole = info_->inputs.size() == 1;
    return is_whole && node_->cancelled.is_any() ? node_->cancelled.StandIn(node_->bus, std::move(msg), false) : msg;
}

// As `Take`, while the function counts as waiting.
int StreamQueue::TakeAtRest(int64_t wait_ns, Block *block, int64_t *held_up)
{
    const GateRest rest(node_->bus->gate(), held_up);
    return Take(wait_ns, block);
}

// A message, or a wait; what the outputs keep is sent meanwhile.
int StreamQueue::Take(int64_t wait_ns, Block *block)
{
    const auto notices = node_->notices.find(queue_);
    if (notices != node_->notices.end() && node_->bus->Get(notices->second, 0, block) == kOk) {
        return kOk;
    }
    const int code = node_->bus->Get(queue_, 0, block);
    if (code != DFLOW_E_TIMEOUT || wait_ns == 0) {
        return code;
    }
    (void)call_->Sweep(); // what was let go of without an answer ends now: nothing more may come before it does
    std::vector<uint32_t> full;
    for (const uint32_t output : info_->outputs) {
        uint32_t queue = 0;
        (void)node_->outputs->Flush(output);
        if (node_->outputs->WaitsFor(output, &queue)) {
            full.push_back(queue);
        }
    }
    if (full.empty()) {
        return node_->bus->Get(queue_, wait_ns, block);
    }
    node_->bus->Wait(&queue_, 1, full.data(), static_cast<uint32_t>(full.size()), wait_ns);
    return node_->bus->Get(queue_, 0, block);
}

void StreamQueue::LetPass()
{
    const std::lock_guard<std::mutex> guard(lock_);
    Block block;
    const int code = is_ended_.load() ? DFLOW_E_TIMEOUT : Take(kSlice, &block);
    if (code == DFLOW_E_CLOSED) {
        is_ended_.store(true);
    } else if (code == kOk) {
        (void)call_->Owe(std::make_shared<Message>(node_->bus, block));
    }
}

int32_t StreamQueue::Depth() const
{
    return static_cast<int32_t>(node_->bus->Depth(queue_));
}

int32_t StreamQueue::Size() const
{
    return static_cast<int32_t>(node_->bus->Level(queue_));
}
}  // namespace dflow
