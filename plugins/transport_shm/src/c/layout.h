/* What lies in the shared region, and the private handle through which a process sees it.
 *
 * Truths are the holds (member x block) and the contents of the queues: everything else that says who has a block
 * (reference counts, free lists) can be computed again from them, and is after a process died inside the lock. */
#ifndef DSHM_LAYOUT_H
#define DSHM_LAYOUT_H
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dshm.h"

#define DSHM_MAGIC 0x316d687364776f6cull
#define DSHM_VERSION 1u
#define LINE 64
#define ORDERS 40
#define NIL UINT32_MAX
#define NAME_BYTES 256
#define KEY_BITS 24
#define KEY_MASK ((1u << KEY_BITS) - 1)
#define RETAINED 0x80000000u
#define SLOT_POOL (1u << 22)
#define WARM_SLACK (64ull << 20)

/* A process can be killed at any instruction: stores around a STEP happen in program order. */
#define STEP() atomic_signal_fence(memory_order_seq_cst)

enum member_state { MEMBER_FREE = 0, MEMBER_LIVE = 1, MEMBER_LEAVING = 2 };
enum intent_op { INTENT_NONE = 0, INTENT_PUT = 1, INTENT_GET = 2 };

struct member {
    uint32_t state, pid;
    uint64_t start;
    char label[NAME_BYTES];
};

struct hold {
    uint32_t count;
    uint32_t from; /* queue + 1 it was taken from; RETAINED bit */
};

struct block {
    uint64_t off, size, gen;
    uint32_t refs, next;
    uint32_t order, used;
};

struct chunk {
    uint32_t next; /* next free chunk of the same order and temperature */
};

struct queue {
    _Alignas(LINE) _Atomic uint64_t tail;
    _Atomic int32_t put_cpu;
    _Alignas(LINE) _Atomic uint64_t head;
    _Atomic int32_t get_cpu;
    _Alignas(LINE) uint32_t depth;
    uint32_t overflow, used, slots_at;
    _Atomic uint32_t closed;
    uint64_t dropped_old, dropped_new;
    uint64_t readers, writers; /* one bit for each word of the masks that is not empty */
    char name[NAME_BYTES];
};

struct bell {
    _Alignas(LINE) _Atomic uint32_t flag; /* 1 while its thread sleeps or is about to */
    _Atomic uint32_t rung;
    uint32_t owner; /* member + 1, 0 if free */
    uint32_t next;
    uint32_t keen; /* wakes for every message, since it waits for many queues */
};

/* A move of one reference between a hold and a queue, written down before it begins. */
struct intent {
    uint32_t op, member, queue, block, count_before;
    uint64_t pos_before;
};

struct header {
    uint64_t magic;
    uint32_t version, gran_shift;
    uint64_t id, total, data_at, data_size, limit;
    uint32_t max_blocks, max_members, max_queues, n_bells, mask_words, max_order;
    uint64_t spin_ns;
    uint64_t members_at, holds_at, blocks_at, chunks_at, backed_at, queues_at, slots_at, masks_at, bells_at;
    _Alignas(LINE) pthread_mutex_t lock;
    _Alignas(LINE) struct intent intent;
    uint32_t block_free, bell_free, n_queues, slots_used;
    uint64_t mem_waiters; /* as queue.readers, for those who wait for memory */
    uint64_t in_use, n_used, backed, high, meta_high, frees, repairs;
    uint32_t warm[ORDERS], cold[ORDERS];
};

struct dshm {
    uint8_t *base, *data;
    struct header *hd;
    struct member *members;
    struct hold *holds, *mine;
    struct block *blocks;
    struct chunk *chunks;
    _Atomic uint64_t *backed;
    struct queue *queues;
    uint32_t *slots;
    uint64_t *masks;
    struct bell *bells;
    _Atomic uint64_t *seen; /* private: pages this process has mapped writable */
    _Atomic int64_t refs;   /* private: calls, blocks and the open handle that need the mapping */
    _Atomic int closed, gone;
    unsigned fork_gen;
    int fd, owner;
    uint32_t member, gran_shift, mask_words;
    _Atomic int stop_at;
    _Atomic int64_t no_yield_until, yield_mean, yield_pause; /* see bell_yield */
};

/* Threads to wake once the lock is free. */
struct wakes {
    uint32_t n;
    uint32_t bell[32];
};

static inline struct hold *hold_of(struct dshm *h, uint32_t member, uint32_t block) {
    return h->holds + (size_t)member * h->hd->max_blocks + block;
}
static inline uint64_t granules(const struct dshm *h, uint64_t bytes) {
    return bytes ? (bytes + (1ull << h->gran_shift) - 1) >> h->gran_shift : 1;
}
static inline int64_t key_of(const struct dshm *h, uint32_t block) {
    return (int64_t)(h->blocks[block].gen << KEY_BITS | block);
}
static inline uint64_t *readers_of(struct dshm *h, uint32_t queue) {
    return h->masks + (size_t)queue * 2 * h->mask_words;
}
static inline uint64_t *writers_of(struct dshm *h, uint32_t queue) {
    return readers_of(h, queue) + h->mask_words;
}
static inline uint64_t *mem_waiters_of(struct dshm *h) { return readers_of(h, h->hd->max_queues); }
static inline uint32_t *slot_of(struct dshm *h, struct queue *q, uint64_t pos) {
    return h->slots + q->slots_at + (uint32_t)(pos % q->depth);
}
static inline uint64_t get64(_Atomic uint64_t *p) { return atomic_load_explicit(p, memory_order_relaxed); }
static inline void set64(_Atomic uint64_t *p, uint64_t v) { atomic_store_explicit(p, v, memory_order_release); }
static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* group.c */
extern _Thread_local int dshm_errno;
extern _Atomic unsigned dshm_fork_gen;
int dshm_enter(struct dshm *h);
void dshm_leave(struct dshm *h);
void dshm_stop(struct dshm *h, int where);
static inline int is_forked(const struct dshm *h) {
    return h->fork_gen != atomic_load_explicit(&dshm_fork_gen, memory_order_relaxed);
}
static inline void stop_here(struct dshm *h, int where) {
    if (__builtin_expect(atomic_load_explicit(&h->stop_at, memory_order_relaxed) == where, 0)) dshm_stop(h, where);
}

/* lock.c */
int dshm_lock(struct dshm *h);
void dshm_unlock(struct dshm *h);

/* buddy.c */
uint32_t buddy_take(struct dshm *h, uint32_t order, uint64_t want, uint64_t *missing);
void buddy_give(struct dshm *h, uint32_t page, uint32_t order);
void buddy_rebuild(struct dshm *h);
uint64_t buddy_shrink(struct dshm *h, uint64_t want);
uint64_t backed_count(struct dshm *h, uint64_t from, uint64_t n);
int backed_fill(struct dshm *h, uint64_t from, uint64_t n, uint64_t missing);

/* block.c */
void block_unref(struct dshm *h, uint32_t block, struct wakes *w);

/* bell.c */
int64_t now_ns(void);
int bell_take(struct dshm *h, int keen);
void bell_drop(struct dshm *h, uint32_t bell);
void bell_sleep(struct dshm *h, uint32_t bell, int64_t until);
enum { YIELDS = 4 };
int bell_yield(struct dshm *h);
void bells_wake(struct dshm *h, const struct wakes *w);
void bells_wake_all(struct dshm *h);
void mask_set(uint64_t *mask, uint64_t *sum, uint32_t bell);
void mask_clear(uint64_t *mask, uint64_t *sum, uint32_t bell);
void mask_collect(struct dshm *h, uint64_t *mask, uint64_t *sum, int all, struct wakes *w);
void masks_repair(struct dshm *h);
#endif
