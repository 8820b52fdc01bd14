// A memory group as this library uses it: blocks and queues through the table of dflow/transport.h.
#ifndef DFLOW_UDF_BUS_H
#define DFLOW_UDF_BUS_H

#include <atomic>
#include <cstdint>
#include <string>

#include "dflow/transport.h"
#include "gate.h"

namespace dflow {
constexpr int kOk = DFLOW_OK;
constexpr int64_t kMillisecond = 1000000;
constexpr int64_t kSecond = 1000 * kMillisecond;

// Longest sleep before a thread looks whether it should end.
constexpr int64_t kSlice = 100 * kMillisecond;

// CLOCK_MONOTONIC in nanoseconds.
int64_t Now();

// One reference to a block; `data` is where its head begins. No memory: copies are the same reference.
struct Block {
    int64_t key = -1;
    uint8_t *data = nullptr;
    uint64_t size = 0;
};

// The table, with waits that end when the instance is to stop. Any thread may use it.
class Bus {
public:
    explicit Bus(const dflow_transport *table) : table_(table) {}

    // A block of at least `size` bytes whose head is zero. Waits up to `wait_ns` in slices.
    int Alloc(uint64_t size, int64_t wait_ns, Block *out);

    int Retain(const Block &block)
    {
        return table_->retain(table_->context, block.key);
    }

    // After `Close` it does nothing: the group may be gone, and has taken back all its member held.
    void Release(const Block &block)
    {
        if (!is_closed_.load(std::memory_order_relaxed)) {
            (void)table_->release(table_->context, block.key);
        }
    }

    // Takes the reference if it succeeds.
    int Put(uint32_t queue, const Block &block, int64_t wait_ns)
    {
        return table_->enqueue(table_->context, queue, block.key, wait_ns);
    }

    int Get(uint32_t queue, int64_t wait_ns, Block *out);

    // Messages in a queue; 0 if that cannot be told.
    uint32_t Level(uint32_t queue);

    // Messages a queue can hold; 0 if that cannot be told.
    uint32_t Depth(uint32_t queue);

    // Sleep until one of these queues can be read or written, at most that long.
    void Wait(const uint32_t *readable, uint32_t n_readable, const uint32_t *writable, uint32_t n_writable,
              int64_t wait_ns)
    {
        (void)table_->wait(table_->context, readable, n_readable, writable, n_writable, wait_ns);
    }

    // A message that this member's calls on a queue have displaced; false if there is none.
    bool TakeDropped(uint32_t queue, Block *out);

    // Words for a code.
    std::string Explain(int code, uint64_t size) const;

    // The instance is gone; messages that a library keeps in its globals may come here still.
    void Close()
    {
        is_closed_.store(true);
        board_.store(nullptr);
    }

    // Where cancelled transactions are told of, as in dflow_udf_config; null from the beginning and after the end.
    void SetBoard(const uint64_t *board)
    {
        board_.store(board);
    }

    const uint64_t *board() const
    {
        return board_.load();
    }

    // Waits end soon from here on.
    void Stop()
    {
        stopping_.store(true, std::memory_order_relaxed);
        gate_.End();
    }

    bool is_stopping() const
    {
        return stopping_.load(std::memory_order_relaxed);
    }

    // What all who wait for something of the group go by.
    Gate *gate()
    {
        return &gate_;
    }

    // How long a function may wait for memory.
    int64_t alloc_limit() const
    {
        return 30 * kSecond;
    }

private:
    int View(int64_t key, Block *out);

    const dflow_transport *table_;
    Gate gate_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> is_closed_{false};
    std::atomic<const uint64_t *> board_{nullptr};
};
}  // namespace dflow

#endif  // DFLOW_UDF_BUS_H
