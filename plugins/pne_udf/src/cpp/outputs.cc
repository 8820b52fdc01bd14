#include "outputs.h"

#include <utility>

namespace dflow {
namespace {
// What one call may have waiting for room before it has to wait itself.
constexpr size_t kMostKept = 256;
}  // namespace

Outputs::Outputs(Bus *bus, std::vector<std::vector<Route>> routes, const NoticeMap &notices)
    : bus_(bus), is_lossy_(!notices.empty()), notices_(bus, notices)
{
    for (std::vector<Route> &each : routes) {
        ports_.push_back(std::make_unique<Port>());
        ports_.back()->routes = std::move(each);
    }
}

Outputs::~Outputs()
{
    Drop();
}

int Outputs::Send(size_t output, Message *msg, const Head &head, View aux, bool is_last)
{
    Port &port = *ports_[output];
    if (port.routes.empty()) {
        return kOk;
    }
    Block block;
    int code = msg->Seal(head, aux, is_last, bus_->alloc_limit(), &block);
    if (code != kOk) {
        return code;
    }
    std::unique_lock<std::mutex> guard(port.lock);
    for (size_t i = 0; i + 1 < port.routes.size() && code == kOk; i++) {
        code = bus_->Retain(block);
        if (code == kOk) {
            code = Put(&port, port.routes[i].Pick(head, bus_), block);
        }
    }
    if (code != kOk) {
        bus_->Release(block);
        return code;
    }
    code = Put(&port, port.routes.back().Pick(head, bus_), block);
    return code == kOk ? WaitForRoom(&port, &guard) : code;
}

// Takes the reference in any case.
int Outputs::Put(Port *port, uint32_t queue, const Block &block)
{
    int code = FlushLocked(port);
    if (code == kOk) {
        code = PutNow(port, &queue, block);
    }
    if (code == DFLOW_E_TIMEOUT) {
        port->kept.push_back(Kept{queue, block});
        port->has_kept.store(true, std::memory_order_relaxed);
        return kOk;
    }
    if (code != kOk) {
        bus_->Release(block);
        return code;
    }
    Sent(queue);
    return kOk;
}

// Into a queue, or into the one that is used instead where that was closed, because its instance is gone for good.
int Outputs::PutNow(Port *port, uint32_t *queue, const Block &block)
{
    int code = bus_->Put(*queue, block, 0);
    while (code == DFLOW_E_CLOSED) {
        const auto found = std::find_if(port->routes.begin(), port->routes.end(),
                                        [queue](Route &route) { return route.GiveUp(*queue); });
        if (found == port->routes.end()) {
            return code;
        }
        *queue = found->Pick(*reinterpret_cast<const Head *>(block.data), bus_);
        code = bus_->Put(*queue, block, 0);
    }
    return code;
}

void Outputs::Sent(uint32_t queue)
{
    sent_.fetch_add(1, std::memory_order_relaxed);
    if (is_lossy_) {
        notices_.Tell(queue);
    }
}

int Outputs::Flush(size_t output)
{
    Port &port = *ports_[output];
    if (!is_lossy_ && !port.has_kept.load(std::memory_order_relaxed)) {
        return kOk;
    }
    const std::lock_guard<std::mutex> guard(port.lock);
    notices_.Flush();
    return FlushLocked(&port);
}

int Outputs::FlushLocked(Port *port)
{
    if (port->kept.empty()) {
        return kOk;
    }
    while (!port->kept.empty()) {
        Kept &first = port->kept.front();
        const int code = PutNow(port, &first.queue, first.block);
        if (code == DFLOW_E_TIMEOUT) {
            return code;
        }
        const Kept done = first;
        port->kept.pop_front();
        if (code != kOk) {
            bus_->Release(done.block);
            return code;
        }
        Sent(done.queue);
    }
    port->has_kept.store(false, std::memory_order_relaxed);
    return kOk;
}

// Without the lock, as the gate may be closed meanwhile.
int Outputs::WaitForRoom(Port *port, std::unique_lock<std::mutex> *guard)
{
    if (port->kept.size() <= kMostKept) {
        return kOk;
    }
    const int64_t began = Now();
    int code = DFLOW_E_TIMEOUT;
    while (code == DFLOW_E_TIMEOUT && port->kept.size() > kMostKept && !bus_->is_stopping()) {
        const uint32_t queue = port->kept.front().queue;
        guard->unlock();
        {
            const GateRest rest(bus_->gate());
            bus_->Wait(nullptr, 0, &queue, 1, kSlice);
        }
        guard->lock();
        code = FlushLocked(port);
    }
    blocked_ns_.fetch_add(static_cast<uint64_t>(Now() - began), std::memory_order_relaxed);
    return code == DFLOW_E_TIMEOUT ? kOk : code;
}

bool Outputs::WaitsFor(size_t output, uint32_t *queue)
{
    Port &port = *ports_[output];
    const std::lock_guard<std::mutex> guard(port.lock);
    if (port.kept.empty()) {
        return false;
    }
    *queue = port.kept.front().queue;
    return true;
}

void Outputs::Drop()
{
    for (const auto &port : ports_) {
        const std::lock_guard<std::mutex> guard(port->lock);
        for (const Kept &kept : port->kept) {
            bus_->Release(kept.block);
        }
        port->kept.clear();
        port->has_kept.store(false, std::memory_order_relaxed);
    }
}
}  // namespace dflow
