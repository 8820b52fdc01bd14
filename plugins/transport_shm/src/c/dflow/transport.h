/* What a transport within one machine offers to native code: messages move without Python.
 *
 * A memory group hands out one table (Python: `MemoryGroup.native_table()`); it is the group as one member sees it. It
 * stays valid until the keep-alive object that came with it is gone. All functions may be called by any thread of the
 * process, without the GIL; none throws, none calls back. A child made by fork must not use its parent's table; every
 * function answers DFLOW_E_FORKED there.
 *
 * Blocks. A message lies in a block: DFLOW_HEAD_SIZE bytes of head, then the data. A block has a key, a number from 0
 * up, that names it in every process of the group. Who allocates, dequeues or retains a block holds one reference to
 * it; `release` gives one back; `enqueue` hands the caller's to the queue if it succeeds. A reference belongs to the
 * member, not to a thread. Content may be written by whoever made the block until it is sent.
 *
 * Queues are numbered from 0 as `queue_find` says. They are bounded, first in first out, for any number of producers
 * and consumers. What `enqueue` does at a full queue was decided when it was made; where it gives way (drop_oldest,
 * drop_newest, keep_latest, max_age), the caller becomes the holder of the messages that were displaced and fetches
 * them with `take_dropped`.
 *
 * Waits last at most `wait_ns` nanoseconds; 0 tries once. There is no wait without a limit: call again, and look for
 * signals in between. They end early when the queue is closed or the member leaves the group.
 *
 * Results below zero are codes of `enum dflow_transport_code`; `last_error` has words for the last one in this thread. */
#ifndef DFLOW_TRANSPORT_H
#define DFLOW_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a caller of an older table would go wrong with a newer one. Functions added at the end do not raise
 * it; `size` tells which are there: see DFLOW_TRANSPORT_HAS. */
#define DFLOW_TRANSPORT_ABI 1u

/* Bytes of a message's head (`dflow_core.message.HEAD_SIZE`); the block of a message is never smaller. */
#define DFLOW_HEAD_SIZE 256u

enum dflow_transport_code {
    DFLOW_OK = 0,
    DFLOW_E_TIMEOUT = -1,      /* nothing within the limit; for allocate: no memory within it */
    DFLOW_E_CLOSED = -2,       /* the queue is closed (for dequeue: and empty) */
    DFLOW_E_GROUP_CLOSED = -3, /* this member has left the group */
    DFLOW_E_FORKED = -4,       /* a child of fork used its parent's table */
    DFLOW_E_BAD_BLOCK = -5,    /* this member does not hold the block */
    DFLOW_E_SYSTEM = -6,       /* the system refused memory */
    DFLOW_E_TABLE = -7,        /* a table of the group is full */
    DFLOW_E_MISSING = -9,      /* no queue of that name or number */
    DFLOW_E_TOO_BIG = -11,     /* larger than all the memory of the group */
    DFLOW_E_BROKEN = -13,      /* a lock of the group cannot be recovered */
};

/* A block: its message's head, what follows the head, and how many bytes it has altogether. `data` is NULL if the
 * block is smaller than a head, which that of a message never is. */
typedef struct dflow_block_view {
    void *head;
    void *data;
    uint64_t size;
} dflow_block_view;

/* Counters of a queue since it was made: sent = delivered + dropped + failed + level (`QueueStats`). */
typedef struct dflow_queue_stats {
    uint32_t depth, level, closed, reserved;
    uint64_t sent, delivered, dropped, failed;
    uint64_t oldest_age_ns; /* how long the oldest message has lain in it */
    uint64_t blocked_ns;    /* how long producers have waited for room */
    uint64_t waiting_ns;    /* how long consumers have waited for messages */
} dflow_queue_stats;

typedef struct dflow_transport dflow_transport;

struct dflow_transport {
    uint32_t abi;  /* DFLOW_TRANSPORT_ABI of who made the table */
    uint32_t size; /* bytes of the table there */
    void *context; /* first argument of every function */

    /* A new block of at least `size` bytes, held once by the caller, content undefined: its key, or a code. */
    int64_t (*allocate)(void *context, uint64_t size, int64_t wait_ns);
    /* One reference more, for a caller who holds the block already. */
    int (*retain)(void *context, int64_t block);
    /* One reference less. */
    int (*release)(void *context, int64_t block);
    /* Where a block lies; valid as long as the caller holds it. */
    int (*view)(void *context, int64_t block, dflow_block_view *out);

    /* The number of the queue of that name (UTF-8), or DFLOW_E_MISSING. */
    int64_t (*queue_find)(void *context, const char *name);
    /* Send a block. On success the caller's reference is the queue's; otherwise the caller still has it. */
    int (*enqueue)(void *context, uint32_t queue, int64_t block, int64_t wait_ns);
    /* Take the oldest block: its key, or a code. */
    int64_t (*dequeue)(void *context, uint32_t queue, int64_t wait_ns);
    /* The oldest message displaced by this member's calls on the queue, now held by the caller; DFLOW_E_MISSING if none. */
    int64_t (*take_dropped)(void *context, uint32_t queue);
    /* How many messages are in it, or a code. */
    int64_t (*level)(void *context, uint32_t queue);
    /* Refuse further messages and wake everybody. */
    int (*close)(void *context, uint32_t queue);
    /* Sleep until a queue of `readable` has a message or is closed, or one of `writable` has room or is closed.
     * 1: there may be something to do; 0: the limit passed; or a code. */
    int (*wait)(void *context, const uint32_t *readable, uint32_t readable_count, const uint32_t *writable,
                uint32_t writable_count, int64_t wait_ns);

    int (*queue_stats)(void *context, uint32_t queue, dflow_queue_stats *out);
    /* Words for the last code a function of this table gave in this thread; never NULL, valid until the next call. */
    const char *(*last_error)(void *context);
};

/* Whether the table of whoever made it has that function. */
#define DFLOW_TRANSPORT_HAS(table, member) \
    ((table)->size >= offsetof(dflow_transport, member) + sizeof((table)->member) && (table)->member != NULL)

#ifdef __cplusplus
}
#endif
#endif
