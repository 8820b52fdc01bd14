// The outputs of a node instance: where messages go, and what waits for room.
#ifndef DFLOW_UDF_OUTPUTS_H
#define DFLOW_UDF_OUTPUTS_H

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "dflow/flow_func_runtime.h"
#include "message.h"
#include "notices.h"

namespace dflow {
// Where one consumer's messages go; several queues where each of its instances has one.
struct Route {
    std::vector<uint32_t> queues;
    uint16_t rule = DFLOW_UDF_BY_LABEL;
    size_t spares = 0;
    mutable size_t turn = 0;  // where the next look for the shortest queue begins; whoever picks holds a lock

    uint32_t Pick(const Head &head, Bus *bus) const
    {
        const size_t count = queues.size() - spares;
        if (count <= 1) {
            return queues[0];
        }
        if (rule == DFLOW_UDF_BY_LOAD) {
            return Shortest(bus, count);
        }
        if (rule == DFLOW_UDF_BY_KEY && head.route_label != 0) {
            return queues[(head.route_label - 1) % count];
        }
        const uint64_t label = rule == DFLOW_UDF_BY_LABEL && head.route_label != 0 ? head.route_label : 1;
        return queues[(head.trans_id - 1 + label - 1) % count];
    }

private:
    uint32_t Shortest(Bus *bus, size_t count) const
    {
        const size_t first = turn++ % count;
        size_t best = first;
        uint32_t least = bus->Level(queues[first]);
        for (size_t i = 1; i < count && least > 0; i++) {
            const size_t next = (first + i) % count;
            const uint32_t level = bus->Level(queues[next]);
            if (level < least) {
                least = level;
                best = next;
            }
        }
        return queues[best];
    }
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
    };

    int Put(Port *port, uint32_t queue, const Block &block);
    int FlushLocked(Port *port);
    void Sent(uint32_t queue);
    int WaitForRoom(Port *port);

    Bus *bus_;
    bool is_lossy_;
    NoticeSender notices_;
    std::vector<std::unique_ptr<Port>> ports_;
    std::atomic<uint64_t> sent_{0};
    std::atomic<uint64_t> blocked_ns_{0};
};
}  // namespace dflow

#endif  // DFLOW_UDF_OUTPUTS_H
