// A transport in this process's own memory: the table of dflow/transport.h for tests, with accounts of every block.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "dflow/transport.h"

namespace {
using Clock = std::chrono::steady_clock;

struct HeapBlock {
    std::vector<uint64_t> memory;
    uint64_t size = 0;
    int references = 0;
};

struct HeapQueue {
    std::string name;
    uint32_t depth = 0;
    bool is_closed = false;
    bool is_lossy = false; // the oldest gives way
    uint64_t sent = 0;
    uint64_t delivered = 0;
    std::deque<int64_t> blocks;
    std::deque<int64_t> dropped;
};

struct Group {
    dflow_transport table{};
    std::mutex lock;
    std::condition_variable changed;
    std::map<int64_t, std::unique_ptr<HeapBlock>> blocks;
    std::vector<std::unique_ptr<HeapQueue>> queues;
    int64_t next_key = 1;
    uint64_t limit = 0; // bytes; 0 is none
    uint64_t in_use = 0;

    HeapQueue *Find(uint32_t queue)
    {
        return queue < queues.size() ? queues[queue].get() : nullptr;
    }

    HeapBlock *Held(int64_t key)
    {
        const auto found = blocks.find(key);
        return found == blocks.end() || found->second->references == 0 ? nullptr : found->second.get();
    }
};

Group *Of(void *context)
{
    return static_cast<Group *>(context);
}

// Try until it is no time-out or the limit has passed.
template <typename Try>
int64_t Wait(Group *group, int64_t wait_ns, const Try &attempt)
{
    std::unique_lock<std::mutex> guard(group->lock);
    const auto until = Clock::now() + std::chrono::nanoseconds(wait_ns);
    for (;;) {
        const int64_t code = attempt();
        if (code != DFLOW_E_TIMEOUT || wait_ns <= 0 || Clock::now() >= until) {
            return code;
        }
        group->changed.wait_until(guard, until);
    }
}

int64_t Allocate(void *context, uint64_t size, int64_t wait_ns)
{
    Group *const group = Of(context);
    if (group->limit != 0 && size > group->limit) {
        return DFLOW_E_TOO_BIG;
    }
    return Wait(group, wait_ns, [=]() -> int64_t {
        if (group->limit != 0 && group->in_use + size > group->limit) {
            return DFLOW_E_TIMEOUT;
        }
        auto block = std::make_unique<HeapBlock>();
        block->memory.resize((size + 7) / 8, 0xABABABABABABABABU);
        block->size = size;
        block->references = 1;
        memset(block->memory.data(), 0, std::min<uint64_t>(size, DFLOW_HEAD_SIZE));
        group->in_use += size;
        group->blocks[group->next_key] = std::move(block);
        return group->next_key++;
    });
}

int Retain(void *context, int64_t key)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    HeapBlock *const block = group->Held(key);
    if (block == nullptr) {
        return DFLOW_E_BAD_BLOCK;
    }
    block->references++;
    return DFLOW_OK;
}

int Release(void *context, int64_t key)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    HeapBlock *const block = group->Held(key);
    if (block == nullptr) {
        return DFLOW_E_BAD_BLOCK;
    }
    if (--block->references == 0) {
        group->in_use -= block->size;
        group->blocks.erase(key);
        group->changed.notify_all();
    }
    return DFLOW_OK;
}

int View(void *context, int64_t key, dflow_block_view *out)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    HeapBlock *const block = group->Held(key);
    if (block == nullptr) {
        return DFLOW_E_BAD_BLOCK;
    }
    out->head = block->memory.data();
    out->data = reinterpret_cast<uint8_t *>(block->memory.data()) + DFLOW_HEAD_SIZE;
    out->size = block->size;
    return DFLOW_OK;
}

int64_t QueueFind(void *context, const char *name)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    for (size_t i = 0; i < group->queues.size(); i++) {
        if (group->queues[i]->name == name) {
            return static_cast<int64_t>(i);
        }
    }
    return DFLOW_E_MISSING;
}

int Enqueue(void *context, uint32_t queue, int64_t key, int64_t wait_ns)
{
    Group *const group = Of(context);
    return static_cast<int>(Wait(group, wait_ns, [=]() -> int64_t {
        HeapQueue *const found = group->Find(queue);
        if (found == nullptr) {
            return DFLOW_E_MISSING;
        }
        if (group->Held(key) == nullptr) {
            return DFLOW_E_BAD_BLOCK;
        }
        if (found->is_closed) {
            return DFLOW_E_CLOSED;
        }
        if (found->blocks.size() >= found->depth && !found->is_lossy) {
            return DFLOW_E_TIMEOUT;
        }
        if (found->blocks.size() >= found->depth) {
            found->dropped.push_back(found->blocks.front());
            found->blocks.pop_front();
        }
        found->blocks.push_back(key);
        found->sent++;
        group->changed.notify_all();
        return DFLOW_OK;
    }));
}

int64_t Dequeue(void *context, uint32_t queue, int64_t wait_ns)
{
    Group *const group = Of(context);
    return Wait(group, wait_ns, [=]() -> int64_t {
        HeapQueue *const found = group->Find(queue);
        if (found == nullptr) {
            return DFLOW_E_MISSING;
        }
        if (found->blocks.empty()) {
            return found->is_closed ? DFLOW_E_CLOSED : DFLOW_E_TIMEOUT;
        }
        const int64_t key = found->blocks.front();
        found->blocks.pop_front();
        found->delivered++;
        group->changed.notify_all();
        return key;
    });
}

int64_t TakeDropped(void *context, uint32_t queue)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    HeapQueue *const found = group->Find(queue);
    if (found == nullptr || found->dropped.empty()) {
        return DFLOW_E_MISSING;
    }
    const int64_t key = found->dropped.front();
    found->dropped.pop_front();
    return key;
}

int64_t Level(void *context, uint32_t queue)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    HeapQueue *const found = group->Find(queue);
    return found == nullptr ? static_cast<int64_t>(DFLOW_E_MISSING) : static_cast<int64_t>(found->blocks.size());
}

int Close(void *context, uint32_t queue)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    HeapQueue *const found = group->Find(queue);
    if (found == nullptr) {
        return DFLOW_E_MISSING;
    }
    found->is_closed = true;
    group->changed.notify_all();
    return DFLOW_OK;
}

int WaitMany(void *context, const uint32_t *readable, uint32_t n_readable, const uint32_t *writable,
             uint32_t n_writable, int64_t wait_ns)
{
    Group *const group = Of(context);
    const int64_t code = Wait(group, wait_ns, [=]() -> int64_t {
        for (uint32_t i = 0; i < n_readable; i++) {
            HeapQueue *const queue = group->Find(readable[i]);
            if (queue != nullptr && (!queue->blocks.empty() || queue->is_closed)) {
                return 1;
            }
        }
        for (uint32_t i = 0; i < n_writable; i++) {
            HeapQueue *const queue = group->Find(writable[i]);
            if (queue != nullptr && (queue->blocks.size() < queue->depth || queue->is_closed)) {
                return 1;
            }
        }
        return DFLOW_E_TIMEOUT;
    });
    return code == DFLOW_E_TIMEOUT ? 0 : static_cast<int>(code);
}

int QueueStats(void *context, uint32_t queue, dflow_queue_stats *out)
{
    Group *const group = Of(context);
    const std::lock_guard<std::mutex> guard(group->lock);
    HeapQueue *const found = group->Find(queue);
    if (found == nullptr) {
        return DFLOW_E_MISSING;
    }
    *out = dflow_queue_stats{};
    out->depth = found->depth;
    out->level = static_cast<uint32_t>(found->blocks.size());
    out->closed = found->is_closed ? 1 : 0;
    out->sent = found->sent;
    out->delivered = found->delivered;
    return DFLOW_OK;
}

const char *LastError(void *)
{
    return "heap transport";
}
}  // namespace

extern "C" {
// A group; `limit` bytes of blocks, 0 without a limit.
__attribute__((visibility("default"))) const dflow_transport *heap_create(uint64_t limit)
{
    auto *const group = new Group();
    group->limit = limit;
    group->table = dflow_transport{DFLOW_TRANSPORT_ABI, sizeof(dflow_transport), group, Allocate, Retain, Release,
                                   View, QueueFind, Enqueue, Dequeue, TakeDropped, Level, Close, WaitMany, QueueStats,
                                   LastError};
    return &group->table;
}

__attribute__((visibility("default"))) int64_t heap_queue(const dflow_transport *table, const char *name,
                                                          uint32_t depth)
{
    Group *const group = Of(table->context);
    const std::lock_guard<std::mutex> guard(group->lock);
    auto queue = std::make_unique<HeapQueue>();
    queue->name = name;
    queue->depth = depth;
    group->queues.push_back(std::move(queue));
    return static_cast<int64_t>(group->queues.size()) - 1;
}

// From now on the oldest message gives way when the queue is full.
__attribute__((visibility("default"))) void heap_lossy(const dflow_transport *table, uint32_t queue)
{
    Group *const group = Of(table->context);
    const std::lock_guard<std::mutex> guard(group->lock);
    group->queues[queue]->is_lossy = true;
}

// Blocks that somebody holds: a member or a queue.
__attribute__((visibility("default"))) uint64_t heap_blocks(const dflow_transport *table)
{
    Group *const group = Of(table->context);
    const std::lock_guard<std::mutex> guard(group->lock);
    return group->blocks.size();
}

__attribute__((visibility("default"))) void heap_destroy(const dflow_transport *table)
{
    delete Of(table->context);
}
}
