// The outputs of a node instance: where messages go, and what waits for room.
#ifndef DFLOW_UDF_OUTPUTS_H
#define DFLOW_UDF_OUTPUTS_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "dflow/flow_func_runtime.h"
#include "message.h"
#include "notices.h"

namespace dflow {
// Where one consumer's messages go; several queues where each of its instances has one. Whoever picks holds a lock.
class Route {
public:
    Route(std::vector<uint32_t> queues, uint16_t rule, size_t spares)
        : queues_(std::move(queues)), rule_(rule), spares_(spares)
    {}

    const std::vector<uint32_t> &queues() const
    {
        return queues_;
    }

    uint32_t Pick(const Head &head, Bus *bus)
    {
        const size_t count = queues_.size() - spares_;
        return queues_.size() == 1 ? queues_[0] : queues_[Open(count <= 1 ? 0 : Index(head, bus, count), count)];
    }

    // Do not pick a queue again, because it is closed; false if it is none of these, or no other is left.
    bool GiveUp(uint32_t queue)
    {
        const auto found = std::find(queues_.begin(), queues_.end(), queue);
        if (found == queues_.end()) {
            return false;
        }
        closed_.insert(queue);
        return closed_.size() < queues_.size();
    }

private:
    size_t Index(const Head &head, Bus *bus, size_t count)
    {
        if (rule_ == DFLOW_UDF_BY_LOAD) {
            return Shortest(bus, count);
        }
        if (rule_ == DFLOW_UDF_BY_KEY && head.route_label != 0) {
            return (head.route_label - 1) % count;
        }
        const uint64_t label = rule_ == DFLOW_UDF_BY_LABEL && head.route_label != 0 ? head.route_label : 1;
        return (head.trans_id - 1 + label - 1) % count;
    }

    size_t Shortest(Bus *bus, size_t count)
    {
        const size_t first = turn_++ % count;
        size_t best = first;
        uint32_t least = UINT32_MAX;
        for (size_t i = 0; i < count && least > 0; i++) {
            const size_t next = (first + i) % count;
            const uint32_t level = bus->Level(queues_[next]);
            if (level < least && closed_.count(queues_[next]) == 0) {
                least = level;
                best = next;
            }
        }
        return best;
    }

    // The queue, or the next one that is open; spare ones after all others.
    size_t Open(size_t index, size_t count) const
    {
        for (size_t i = 0; i < queues_.size() && !closed_.empty(); i++) {
            const size_t next = i < count ? (index + i) % count : i;
            if (closed_.count(queues_[next]) == 0) {
                return next;
            }
        }
        return index;
    }

    std::vector<uint32_t> queues_;
    uint16_t rule_;
    size_t spares_;
    size_t turn_ = 0;  // where the next look for the shortest queue begins
    std::set<uint32_t> closed_;
};

// Shared by the functions of an instance; any thread may send. Order on an output is the order of `Send`, also while
// queues are full.
class Outputs {
public:
    // `routes`: for each output, one for each consumer.
    Outputs(Bus *bus, std::vector<std::vector<Route>> routes, const NoticeMap &notices);
    ~Outputs();

    Outputs(const Outputs &) = delete;
    Outputs &operator=(const Outputs &) = delete;

    size_t size() const
    {
        return ports_.size();
    }

    // Send a message under a head; what finds no room is kept and sent by `Flush`. Waits for room only when very much
    // is kept already. `is_last`: the message is not used afterwards. Gives kOk or a code of the bus.
    int Send(size_t output, Message *msg, const Head &head, View aux, bool is_last);

    // Send what was kept, as far as there is room: kOk if nothing is kept any more, DFLOW_E_TIMEOUT, or a code.
    int Flush(size_t output);

    // The queue that `Flush` waits for, if any.
    bool WaitsFor(size_t output, uint32_t *queue);

    // Let go of what is kept.
    void Drop();

    // Messages sent, and nanoseconds spent waiting for room.
    uint64_t sent() const
    {
        return sent_.load(std::memory_order_relaxed);
    }

    uint64_t blocked_ns() const
    {
        return blocked_ns_.load(std::memory_order_relaxed);
    }

private:
    struct Kept {
        uint32_t queue;
        Block block;
    };

    struct Port {
        std::mutex lock;
        std::vector<Route> routes;
        std::deque<Kept> kept;
        std::atomic<bool> has_kept{false}; // can be asked without the lock
    };

    int Put(Port *port, uint32_t queue, const Block &block);
    int PutNow(Port *port, uint32_t *queue, const Block &block);
    int FlushLocked(Port *port);
    void Sent(uint32_t queue);
    int WaitForRoom(Port *port, std::unique_lock<std::mutex> *guard);

    Bus *bus_;
    bool is_lossy_;
    NoticeSender notices_;
    std::vector<std::unique_ptr<Port>> ports_;
    std::atomic<uint64_t> sent_{0};
    std::atomic<uint64_t> blocked_ns_{0};
};
}  // namespace dflow

#endif  // DFLOW_UDF_OUTPUTS_H
