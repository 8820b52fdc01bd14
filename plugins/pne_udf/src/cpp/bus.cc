#include "bus.h"

#include <ctime>

#include <algorithm>
#include <cstring>

namespace dflow {
int64_t Now()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * kSecond + now.tv_nsec;
}

int Bus::Alloc(uint64_t size, int64_t wait_ns, Block *out)
{
    size = std::max<uint64_t>(size, DFLOW_HEAD_SIZE);
    int64_t key = table_->allocate(table_->context, size, 0);
    if (key == DFLOW_E_TIMEOUT && wait_ns > 0) {
        const int64_t until = Now() + wait_ns;
        for (int64_t now = Now(); key == DFLOW_E_TIMEOUT && now < until && !is_stopping(); now = Now()) {
            key = table_->allocate(table_->context, size, std::min(kSlice, until - now));
        }
    }
    return View(key, out);
}

int Bus::Get(uint32_t queue, int64_t wait_ns, Block *out)
{
    return View(table_->dequeue(table_->context, queue, wait_ns), out);
}

// The block of a key, or the code that came instead of one.
int Bus::View(int64_t key, Block *out)
{
    if (key < 0) {
        return static_cast<int>(key);
    }
    dflow_block_view view;
    const int code = table_->view(table_->context, key, &view);
    if (code != kOk) {
        (void)table_->release(table_->context, key);
        return code;
    }
    *out = Block{key, static_cast<uint8_t *>(view.head), view.size};
    return kOk;
}

uint32_t Bus::Level(uint32_t queue)
{
    const int64_t level = table_->level(table_->context, queue);
    return level < 0 ? 0 : static_cast<uint32_t>(level);
}

uint32_t Bus::Depth(uint32_t queue)
{
    dflow_queue_stats stats;
    return table_->queue_stats(table_->context, queue, &stats) == kOk ? stats.depth : 0;
}

bool Bus::TakeDropped(uint32_t queue, Block *out)
{
    return View(table_->take_dropped(table_->context, queue), out) == kOk;
}

std::string Bus::Explain(int code, uint64_t size) const
{
    const std::string bytes = std::to_string(size) + " bytes";
    switch (code) {
        case DFLOW_E_TIMEOUT:
            return "no memory for " + bytes + " became free within 30 s";
        case DFLOW_E_TOO_BIG:
            return bytes + " are more than all the memory of the graph";
        default:
            return std::string(table_->last_error(table_->context)) + " (code " + std::to_string(code) + ")";
    }
}
}  // namespace dflow
