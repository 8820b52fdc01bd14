/* The functions of the message path as a table: how the extension module, which is linked apart, reaches them. */
#ifndef DSHM_CALLS_H
#define DSHM_CALLS_H
#include "dshm.h"

struct dshm_calls {
    int64_t (*alloc)(struct dshm *h, uint64_t size, int64_t wait_ns);
    int (*block_info)(struct dshm *h, int64_t key, uint64_t *address, uint64_t *size);
    int (*retain)(struct dshm *h, int64_t key);
    int (*release)(struct dshm *h, int64_t key);
    int (*put)(struct dshm *h, uint32_t queue, int64_t key, int64_t wait_ns);
    int64_t (*get)(struct dshm *h, uint32_t queue, int64_t wait_ns);
    int64_t (*take_dropped)(struct dshm *h, uint32_t queue);
    int64_t (*level)(struct dshm *h, uint32_t queue);
    void (*unpin)(struct dshm *h);
};
#endif
