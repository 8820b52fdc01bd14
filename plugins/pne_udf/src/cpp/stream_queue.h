// An input as a function with queues sees it.
#ifndef DFLOW_UDF_STREAM_QUEUE_H
#define DFLOW_UDF_STREAM_QUEUE_H

#include <atomic>
#include <mutex>

#include "contexts.h"
#include "flow_func/flow_msg_queue.h"

namespace dflow {
class StreamQueue : public FlowFunc::FlowMsgQueue {
public:
    // `port`: which of the function's inputs it is, from 0.
    StreamQueue(Node *node, const FuncInfo *info, Call *call, size_t port, uint32_t queue)
        : node_(node), info_(info), call_(call), port_(port), queue_(queue)
    {
    }

    int32_t Dequeue(std::shared_ptr<FlowFunc::FlowMsg> &flowMsg, int32_t timeout = -1) override;
    int32_t Depth() const override;
    int32_t Size() const override;

    // Take the next message, or wait a while for one, and leave it without an answer.
    void LetPass();

    // Let go of what it has itself, because the instance is suspended.
    void Discard();

    bool is_ended() const
    {
        return is_ended_.load();
    }

private:
    int32_t Status();
    int32_t Explained(int code);
    int Take(int64_t wait_ns, Block *block);
    int TakeAtRest(int64_t wait_ns, Block *block, int64_t *held_up);
    MessagePtr Received(const Block &block);

    Node *node_;
    const FuncInfo *info_;
    Call *call_;
    size_t port_;
    uint32_t queue_;
    std::mutex lock_;
    MessagePtr ahead_; // came while the function had to be told of another
    std::atomic<bool> is_ended_{false};
};
}  // namespace dflow

#endif  // DFLOW_UDF_STREAM_QUEUE_H
