// Queues that may drop messages: every dropped message still ends its transaction (dflow_core/executor/lossy.py).
//
// Beside such a queue lies another one for notices. Whoever displaces a message sends the reader a skip there.
#ifndef DFLOW_UDF_NOTICES_H
#define DFLOW_UDF_NOTICES_H

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "message.h"

namespace dflow {
// For each queue that may drop messages, the queue of its notices.
using NoticeMap = std::map<uint32_t, uint32_t>;

// What a reader gets instead of a message that was dropped; errors and ends go on as they are.
MessagePtr NoticeOf(Bus *bus, const Message &dropped);

// The single notices that one stands for; what is no notice stays whole.
std::vector<MessagePtr> SplitNotice(Bus *bus, const MessagePtr &msg);

// Tells readers of what the queues of an instance have dropped. Any thread; never waits.
class NoticeSender {
public:
    NoticeSender(Bus *bus, NoticeMap notices) : bus_(bus), notices_(std::move(notices)) {}
    ~NoticeSender();

    NoticeSender(const NoticeSender &) = delete;
    NoticeSender &operator=(const NoticeSender &) = delete;

    // After a message was put into a queue.
    void Tell(uint32_t queue);

    // Send the notices there is room for.
    void Flush();

private:
    struct Kept {
        uint32_t queue;
        Block block;
    };

    void FlushLocked();

    Bus *bus_;
    NoticeMap notices_;
    std::mutex lock_;
    std::deque<Kept> kept_;
};
}  // namespace dflow

#endif  // DFLOW_UDF_NOTICES_H
