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
    if (node_->failed_calls.is_wanted()) {
        call_->LetGoTaken(false); // it may wait long, and nothing is to be held meanwhile
    }
    const int64_t limit = timeout >= 0 ? timeout * kMillisecond : kOddTimeout;
    int64_t until = timeout == -1 ? INT64_MAX : Now() + limit;
    for (;;) {
        const int32_t status = Status();
        if (status != FlowFunc::FLOW_FUNC_SUCCESS) {
            return status;
        }
        MessagePtr msg = std::move(ahead_);
        if (msg == nullptr) {
            Block block;
            const int64_t left = timeout == -1 ? kSlice : std::max<int64_t>(0, std::min(kSlice, until - Now()));
            int64_t held_up = 0;
            const int code = TakeAtRest(left, &block, &held_up);
            until += timeout == -1 ? 0 : held_up;
            if (code == DFLOW_E_TIMEOUT && (timeout == -1 || Now() < until)) {
                continue;
            }
            if (code != kOk) {
                return Explained(code);
            }
            msg = Received(block);
        }
        if (node_->is_suspended.load()) {
            continue;
        }
        if (call_->Lose(port_, node_->cancelled)) { // what was cancelled meanwhile comes before it
            ahead_ = std::move(msg);
            return FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED;
        }
        const Fate fate = call_->Take(port_, msg, node_->cancelled);
        if (fate == Fate::kTell) {
            return FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED;
        }
        if (fate == Fate::kGive) {
            if (node_->failed_calls.is_wanted()) {
                call_->Remember(port_, *msg);
            }
            flowMsg = msg;
            return msg->GetRetCode();
        }
    }
}

// What the function is told instead of waiting, or 0.
int32_t StreamQueue::Status()
{
    if (node_->is_suspended.load()) {
        return FlowFunc::FLOW_FUNC_STATUS_REDEPLOYING;
    }
    if (node_->bus->is_stopping()) {
        return FlowFunc::FLOW_FUNC_STATUS_EXIT;
    }
    return call_->Lose(port_, node_->cancelled) ? FlowFunc::FLOW_FUNC_ERR_DATA_ALIGN_FAILED : FlowFunc::FLOW_FUNC_SUCCESS;
}

// What the function is told where no message could be taken.
int32_t StreamQueue::Explained(int code)
{
    if (code == DFLOW_E_TIMEOUT) {
        return FlowFunc::FLOW_FUNC_ERR_TIME_OUT_ERROR;
    }
    if (code != DFLOW_E_CLOSED) {
        return FlowFunc::FLOW_FUNC_ERR_QUEUE_ERROR;
    }
    is_ended_.store(true);
    return FlowFunc::FLOW_FUNC_STATUS_EXIT;
}

// A message, or a skip in its place if its transaction was cancelled.
MessagePtr StreamQueue::Received(const Block &block)
{
    MessagePtr msg = std::make_shared<Message>(node_->bus, block);
    return node_->cancelled.is_any() ? node_->cancelled.StandIn(node_->bus, std::move(msg), false) : msg;
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
    if (ahead_ != nullptr) {
        (void)call_->Take(port_, std::move(ahead_), node_->cancelled);
    }
    Block block;
    const int code = is_ended_.load() ? DFLOW_E_TIMEOUT : Take(kSlice, &block);
    if (code == DFLOW_E_CLOSED) {
        is_ended_.store(true);
    } else if (code == kOk) {
        (void)call_->Take(port_, Received(block), node_->cancelled);
    }
}

void StreamQueue::Discard()
{
    const std::lock_guard<std::mutex> guard(lock_);
    ahead_ = nullptr;
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
