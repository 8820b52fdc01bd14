#include "inputs.h"

#include <utility>

namespace dflow {
Inputs::Inputs(Bus *bus, std::vector<uint32_t> queues, const std::vector<DeadPart> &dead, const AlignLimits &limits)
    : bus_(bus),
      queues_(std::move(queues)),
      is_open_(queues_.size(), true),
      open_(queues_.size()),
      aligner_(bus, queues_.size(), dead, limits)
{
}

Inputs::Take Inputs::Next(int64_t now, MessageSet *set)
{
    for (;;) {
        if (!ready_.empty()) {
            *set = std::move(ready_.front());
            ready_.pop_front();
            return Take::kSet;
        }
        if (aligner_.pending() != 0 && aligner_.TakeOverdue(now, set)) {
            return Take::kPartial;
        }
        if (!ReadEach(now) || bus_->is_stopping()) {
            break;
        }
    }
    return fault_ != kOk ? Take::kFailed : IsEnded() ? Take::kEnded : Take::kMissing;
}

// Take at most one message from each port; whether there was any.
bool Inputs::ReadEach(int64_t now)
{
    bool took = false;
    for (size_t port = 0; port < queues_.size(); port++) {
        took = (is_open_[port] && Read(port, now, 0)) || took;
    }
    return took;
}

bool Inputs::WaitForOne(int64_t wait_ns)
{
    if (queues_.size() != 1 || open_ == 0) {
        return false;
    }
    (void)Read(0, 0, wait_ns);
    return true;
}

bool Inputs::Read(size_t port, int64_t now, int64_t wait_ns)
{
    Block block;
    const int code = bus_->Get(queues_[port], wait_ns, &block);
    if (code == DFLOW_E_CLOSED) {
        is_open_[port] = false;
        open_--;
        return true; // look again: there may be no port left to wait for
    }
    if (code != kOk) {
        fault_ = code == DFLOW_E_TIMEOUT ? fault_ : code;
        return false;
    }
    fresh_.clear();
    aligner_.Offer(port, std::make_shared<Message>(bus_, block), now, &fresh_);
    for (MessageSet &each : fresh_) {
        ready_.push_back(std::move(each));
    }
    return true;
}

bool Inputs::IsEnded() const
{
    return open_ == 0 && ready_.empty();
}

void Inputs::AppendOpen(std::vector<uint32_t> *queues) const
{
    for (size_t port = 0; port < queues_.size(); port++) {
        if (is_open_[port]) {
            queues->push_back(queues_[port]);
        }
    }
}

void Inputs::Discard()
{
    aligner_.Clear();
    ready_.clear();
    for (size_t port = 0; port < queues_.size(); port++) {
        Block block;
        while (is_open_[port] && !bus_->is_stopping() && bus_->Get(queues_[port], 0, &block) == kOk) {
            bus_->Release(block);
        }
    }
}
}  // namespace dflow
