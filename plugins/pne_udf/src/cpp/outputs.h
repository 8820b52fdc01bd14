// The outputs of a node instance: where messages go, and what waits for room.
#ifndef DFLOW_UDF_OUTPUTS_H
#define DFLOW_UDF_OUTPUTS_H

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "message.h"
#include "notices.h"

namespace dflow {
// Where one consumer's messages go; several queues where parts of a transaction must meet in one instance.
struct Route {
    std::vector<uint32_t> queues;

    uint32_t Pick(const Head &head) const
    {
        if (queues.size() == 1) {
            return queues[0];
        }
        const uint64_t label = head.route_label == 0 ? 1 : head.route_label;
        return queues[(head.trans_id - 1 + label - 1) % queues.size()];
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
