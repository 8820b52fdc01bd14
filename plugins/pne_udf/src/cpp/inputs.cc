#include "inputs.h"

#include <utility>

namespace dflow {
Inputs::Inputs(Bus *bus, const std::vector<uint32_t> &queues, const NoticeMap &notices,
               const std::vector<DeadPart> &dead, const AlignLimits &limits,
               const Cancelled &cancelled)
    : bus_(bus), ports_(queues.size()), aligner_(bus, queues.size(), dead, limits), cancelled_(cancelled)
{
    for (size_t port = 0; port < queues.size(); port++) {
        const auto found = notices.find(queues[port]);
        const bool is_lossy = found != notices.end();
        if (is_lossy) {
            sources_.push_back(Source{found->second, port, false, true, true});
        }
        sources_.push_back(Source{queues[port], port, is_lossy, false, true});
    }
    open_ = sources_.size();
}

Inputs::Take Inputs::Next(int64_t now, MessageSet *set)
{
    const bool is_only = sources_.size() == 1;
    if (is_only && ready_.empty() && TakeOnly(set)) {
        return Take::kSet;
    }
    for (;;) {
        if (!ready_.empty()) {
            TakeReady(set);
            return Take::kSet;
        }
        if (aligner_.pending() != 0 && aligner_.TakeOverdue(now, set)) {
            return Take::kPartial;
        }
        if (is_only || !ReadEach(now) || bus_->is_stopping()) {
            break;
        }
    }
    LetGo();
    return fault_ != kOk ? Take::kFailed : IsEnded() ? Take::kEnded : Take::kMissing;
}

// The oldest set that is complete. It may have been cancelled since.
void Inputs::TakeReady(MessageSet *set)
{
    *set = std::move(ready_.front());
    ready_.pop_front();
    if (cancelled_.is_any()) {
        for (MessagePtr &msg : *set) {
            msg = cancelled_.StandIn(bus_, std::move(msg), false);
        }
    }
}

// Free what waits of transactions that were cancelled since the last call of this.
void Inputs::LetGo()
{
    if (ports_ > 1 && cancelled_.HasNews()) {
        aligner_.LetGo([this](MessagePtr msg) { return cancelled_.StandIn(bus_, std::move(msg), true); });
    }
}

// The next message where there is one input, with nothing in between; false if there is none now.
bool Inputs::TakeOnly(MessageSet *set)
{
    Block block;
    while (sources_[0].is_open && Note(&sources_[0], bus_->Get(sources_[0].queue, 0, &block))) {
        MessagePtr msg = std::make_shared<Message>(bus_, block);
        if (cancelled_.is_any()) {
            msg = cancelled_.StandIn(bus_, std::move(msg), false);
        }
        if (aligner_.IsWanted(0, *msg)) {
            set->clear();
            set->push_back(std::move(msg));
            return true;
        }
    }
    return false;
}

// What came of reading a queue; whether there was a message.
bool Inputs::Note(Source *source, int code)
{
    if (code == DFLOW_E_CLOSED) {
        source->is_open = false;
        open_--;
    } else if (code != kOk && code != DFLOW_E_TIMEOUT) {
        fault_ = code;
    }
    return code == kOk;
}

// Take at most one message from each queue; whether there was any.
bool Inputs::ReadEach(int64_t now)
{
    bool took = false;
    for (Source &source : sources_) {
        took = (source.is_open && Read(&source, now, 0)) || took;
    }
    return took;
}

bool Inputs::WaitForOne(int64_t wait_ns)
{
    if (sources_.size() != 1 || open_ == 0) {
        return false;
    }
    (void)Read(&sources_[0], 0, wait_ns);
    return true;
}

bool Inputs::Read(Source *source, int64_t now, int64_t wait_ns)
{
    Block block;
    const int code = bus_->Get(source->queue, wait_ns, &block);
    MessagePtr msg = code == kOk ? std::make_shared<Message>(bus_, block) : nullptr;
    bool took = msg != nullptr;
    while (source->is_lossy && bus_->TakeDropped(source->queue, &block)) { // too old, found by this very call
        const Message dropped(bus_, block);
        Offer(source->port, NoticeOf(bus_, dropped), now);
        took = true;
    }
    if (msg != nullptr && source->is_notices) {
        msg = msg->Is(kSkip | kEnd | kError) ? msg : NoticeOf(bus_, *msg);
        for (MessagePtr &part : SplitNotice(bus_, msg)) {
            Offer(source->port, std::move(part), now);
        }
    } else if (msg != nullptr) {
        Offer(source->port, std::move(msg), now);
    }
    (void)Note(source, code);
    return took || code == DFLOW_E_CLOSED; // look again: there may be no queue left to wait for
}

void Inputs::Offer(size_t port, MessagePtr msg, int64_t now)
{
    fresh_.clear();
    if (cancelled_.is_any()) {
        msg = cancelled_.StandIn(bus_, std::move(msg), ports_ > 1);
    }
    aligner_.Offer(port, std::move(msg), now, &fresh_);
    for (MessageSet &each : fresh_) {
        ready_.push_back(std::move(each));
    }
}

bool Inputs::IsEnded() const
{
    return open_ == 0 && ready_.empty();
}

void Inputs::AppendOpen(std::vector<uint32_t> *queues) const
{
    for (const Source &source : sources_) {
        if (source.is_open) {
            queues->push_back(source.queue);
        }
    }
}

void Inputs::Discard()
{
    aligner_.Clear();
    ready_.clear();
    for (const Source &source : sources_) {
        Block block;
        while (source.is_open && !bus_->is_stopping() && bus_->Get(source.queue, 0, &block) == kOk) {
            bus_->Release(block);
        }
    }
}
}  // namespace dflow
