/* What lies in the shared region, and the private handle through which a process sees it.
 *
 * Truths are the holds (member x block), the contents of the queues, and one word a block that says whether it is
 * free, cached or live and how many references it has. Free lists, magazines and marks of returned blocks are hints:
 * each is checked against the word of the block, and can be lost or doubled without harm. */
#ifndef DSHM_LAYOUT_H
#define DSHM_LAYOUT_H
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "dflow/transport.h"
#include "dshm.h"
#include "fault.h"

#define DSHM_MAGIC 0x326d687364776f6cull
#define DSHM_VERSION 2u
#define LINE 64
#define ORDERS 40
#define NIL UINT32_MAX
#define NAME_BYTES 256
#define KEY_BITS 24
#define KEY_MASK ((1u << KEY_BITS) - 1)
#define RETAINED 0x80000000u
#define DISPLACED 0x40000000u
#define FROM_QUEUE(from) ((int32_t)((from) & ~(RETAINED | DISPLACED)) - 1)
#define SLOT_POOL (1u << 22)
#define BOARD_POOL (1u << 20)
#define BOARDS_MORE 256u
#define WARM_SLACK (64ull << 20)
#define SHELVES 16
#define MEMBERS_MOST (1u << 10)

/* A process can be killed at any instruction: stores around a STEP happen in program order. */
#define STEP() atomic_signal_fence(memory_order_seq_cst)

enum member_state { MEMBER_FREE = 0, MEMBER_LIVE = 1, MEMBER_LEAVING = 2 };

/* FREE: no memory. CACHED: has memory, nobody holds it; its home may use it again. LIVE: held or queued. */
enum kind { KIND_FREE = 0, KIND_CACHED = 1, KIND_LIVE = 2 };

/* The word of a block: kind, references, and who changed it last with which of his changes. No two changes make the
 * same word (until a member has made 2^36), so comparing words tells whether anything happened. */
#define SEQ_BITS 36
#define SEQ_MASK ((1ull << SEQ_BITS) - 1)
#define COUNT_MOST ((1u << 16) - 1)
static inline uint64_t word_of(uint64_t kind, uint64_t count, uint64_t member, uint64_t seq) {
    return kind << 62 | count << 46 | member << SEQ_BITS | (seq & SEQ_MASK);
}
static inline uint32_t word_kind(uint64_t w) { return (uint32_t)(w >> 62); }
static inline uint32_t word_count(uint64_t w) { return (uint32_t)(w >> 46) & COUNT_MOST; }
static inline uint32_t word_member(uint64_t w) { return (uint32_t)(w >> SEQ_BITS) & (MEMBERS_MOST - 1); }
static inline uint64_t word_seq(uint64_t w) { return w & SEQ_MASK; }

/* A change of a block's references, written down before it begins. */
struct intent {
    _Atomic uint32_t open;
    uint32_t whose, block, before, from;
    int32_t delta;
    uint64_t seq;
};

struct member {
    _Alignas(LINE) _Atomic uint32_t state;
    uint32_t pid;
    uint64_t start;
    char label[NAME_BYTES];
    _Alignas(LINE) struct intent intent; /* its own line: written for every message, by this member alone */
    uint64_t seq;
    _Alignas(LINE) _Atomic uint64_t acked; /* its latest change that somebody else has changed again */
};

/* Written by its member alone (after its death by who reclaims), read by anybody who counts. */
struct hold {
    _Atomic uint32_t count;
    _Atomic uint32_t from; /* queue + 1 it was taken from; RETAINED, DISPLACED */
};

struct block {
    _Alignas(LINE) _Atomic uint64_t word;
    uint64_t off, size, gen;
    _Atomic uint32_t home; /* member that made it, to whom its memory returns */
    _Atomic uint32_t pages;
    uint32_t order, next;
};

struct chunk {
    uint32_t next; /* next free chunk of the same order and temperature */
};

enum move_op { MOVE_NONE = 0, MOVE_PUT, MOVE_GET, MOVE_DROP };

/* A move of one reference between a hold and a queue, written down before it begins. */
struct move {
    _Atomic uint32_t op;
    uint32_t member, queue, block, before;
    uint64_t position, dropped;
};

/* One end of a queue. The first line is read by the other end, the others only by who uses this end. */
struct end {
    _Alignas(LINE) _Atomic uint64_t count; /* messages that ever passed here; storing it is what sends or takes one */
    _Atomic int32_t cpu;
    _Alignas(LINE) pthread_mutex_t lock;
    uint64_t seen; /* the other end's count when last looked at */
    _Alignas(LINE) struct move move;
    _Atomic uint64_t dropped, waited_ns;
};

struct slot {
    _Atomic uint64_t key, time;
};

struct queue {
    _Alignas(LINE) uint32_t depth;
    uint32_t room, mask, overflow, slots_at; /* room: the depth, but 1 for KEEP_LATEST; mask: slots - 1 */
    _Atomic uint32_t closed;                 /* 1: no more puts; 2: and none is under way */
    uint64_t start, max_age;
    _Atomic uint64_t failed;
    _Alignas(LINE) _Atomic uint64_t readers, writers; /* one bit for each word of the masks that is not empty */
    struct end put, get;
    char name[NAME_BYTES];
};

struct bell {
    _Alignas(LINE) _Atomic uint32_t flag; /* 1 while its thread sleeps or is about to */
    _Atomic uint32_t rung;
    _Atomic uint32_t owner; /* member + 1, 0 if free */
    uint32_t next;
    _Atomic uint32_t keen; /* wakes for every message, since it waits for many queues */
};

struct board {
    char name[NAME_BYTES];
    uint32_t words, at;
};

struct header {
    uint64_t magic;
    uint32_t version, gran_shift;
    uint64_t id, total, data_at, data_size, limit;
    uint32_t max_blocks, max_members, max_queues, max_boards, n_bells, mask_words, max_order, mark_words;
    uint64_t spin_ns;
    uint64_t members_at, holds_at, blocks_at, chunks_at, backed_at, queues_at, slots_at, masks_at, bells_at, marks_at,
        boards_at, words_at;
    _Alignas(LINE) pthread_mutex_t lock;
    uint32_t block_free, bell_free, slots_used, n_boards, words_used;
    uint64_t n_used, in_use, high, meta_high, frees; /* of blocks that have memory, cached ones included */
    _Atomic uint64_t backed, repairs;
    _Atomic uint32_t n_queues, blocks_high;
    uint32_t warm[ORDERS], cold[ORDERS];
    _Alignas(LINE) _Atomic uint64_t mem_waiters; /* as queue.readers, for those who wait for memory */
};

/* Blocks of one size in the magazine of a member, the one that came last on top. */
struct shelf {
    uint32_t pages, n, room, used;
    uint32_t *items;
};

struct displaced {
    uint32_t queue;
    int64_t key;
};

struct dshm {
    uint8_t *base, *data;
    struct header *hd;
    struct member *members, *me;
    struct hold *holds, *mine;
    struct block *blocks;
    struct chunk *chunks;
    _Atomic uint64_t *backed;
    struct queue *queues;
    struct slot *slots;
    _Atomic uint64_t *masks, *marks;
    struct bell *bells;
    struct board *boards;
    uint64_t *words;
    _Atomic uint64_t *seen; /* private: pages this process has mapped writable */
    _Atomic uint32_t misses; /* private: waits in a row that looking again did not end */
    _Atomic int64_t refs;   /* private: calls, blocks and the open handle that need the mapping */
    _Atomic int closed, gone;
    unsigned fork_gen;
    _Atomic int fd; /* closed when the member leaves: blocks and boards that are still used need only the mapping */
    _Atomic int needs_fd;
    int owner;
    uint32_t member, gran_shift, mask_words;
    /* Private: keeps the threads of this member from each other. Taken after the lock of an end or of the group, never
     * before; held for some tens of nanoseconds, and never while anything is waited for. */
    pthread_mutex_t own;
    struct shelf shelves[SHELVES];
    uint32_t clock, n_surplus, room_surplus;
    uint32_t *surplus; /* blocks that are too many for the magazine */
    uint64_t cached;
    struct displaced *displaced;
    uint32_t n_displaced, room_displaced;
    uint32_t *spare; /* bells of this member nobody uses now */
    uint32_t n_spare, room_spare;
    dflow_transport table;
    _Atomic int fault, fault_how;
    _Atomic uint32_t fault_skip;
};

/* Threads to wake once no lock is held. */
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
static inline _Atomic uint64_t *readers_of(struct dshm *h, uint32_t queue) {
    return h->masks + (size_t)queue * 2 * h->mask_words;
}
static inline _Atomic uint64_t *writers_of(struct dshm *h, uint32_t queue) {
    return readers_of(h, queue) + h->mask_words;
}
static inline _Atomic uint64_t *mem_waiters_of(struct dshm *h) { return readers_of(h, h->hd->max_queues); }
static inline struct slot *slot_at(struct dshm *h, struct queue *q, uint64_t position) {
    return h->slots + q->slots_at + ((uint32_t)position & q->mask);
}
/* Marks of returned blocks: one bit a block, after one bit for each of those words. */
static inline _Atomic uint64_t *marks_of(struct dshm *h, uint32_t member) {
    return h->marks + (size_t)member * h->hd->mark_words;
}
static inline uint32_t mark_sums(const struct dshm *h) { return (h->hd->max_blocks + 4095) / 4096; }
static inline uint64_t get64(_Atomic uint64_t *p) { return atomic_load_explicit(p, memory_order_relaxed); }
static inline uint64_t look64(_Atomic uint64_t *p) { return atomic_load_explicit(p, memory_order_acquire); }
static inline void set64(_Atomic uint64_t *p, uint64_t v) { atomic_store_explicit(p, v, memory_order_release); }
static inline void put64(_Atomic uint64_t *p, uint64_t v) { atomic_store_explicit(p, v, memory_order_relaxed); }
static inline uint32_t get32(_Atomic uint32_t *p) { return atomic_load_explicit(p, memory_order_relaxed); }
static inline void put32(_Atomic uint32_t *p, uint32_t v) { atomic_store_explicit(p, v, memory_order_relaxed); }
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
void dshm_fault(struct dshm *h, int where);
static inline int is_forked(const struct dshm *h) {
    return h->fork_gen != atomic_load_explicit(&dshm_fork_gen, memory_order_relaxed);
}
static inline void stop_here(struct dshm *h, int where) {
    if (__builtin_expect(atomic_load_explicit(&h->fault, memory_order_relaxed) == where, 0)) dshm_fault(h, where);
}

/* lock.c */
int dshm_lock(struct dshm *h);
void dshm_unlock(struct dshm *h);
int lock_init(pthread_mutex_t *lock);
int end_lock(struct dshm *h, struct queue *q, struct end *e, int64_t until);
static inline void end_unlock(struct end *e) { pthread_mutex_unlock(&e->lock); }
static inline void own_lock(struct dshm *h) { pthread_mutex_lock(&h->own); }
static inline void own_unlock(struct dshm *h) { pthread_mutex_unlock(&h->own); }

/* buddy.c */
uint32_t buddy_take(struct dshm *h, uint32_t order, uint64_t want, uint64_t *missing);
void buddy_give(struct dshm *h, uint32_t page, uint32_t order);
void buddy_rebuild(struct dshm *h);
uint64_t buddy_shrink(struct dshm *h, uint64_t want);
uint64_t backed_count(struct dshm *h, uint64_t from, uint64_t n);
int backed_fill(struct dshm *h, uint64_t from, uint64_t n, uint64_t missing);
int pages_seen(struct dshm *h, uint64_t from, uint64_t n);
int populate_range(struct dshm *h, uint64_t from, uint64_t bytes);

/* ref.c: the caller has locked its own member */
uint32_t ref_change(struct dshm *h, uint32_t whose, uint32_t block, int32_t delta);
int ref_take(struct dshm *h, uint32_t block, uint64_t pages);
int ref_free(struct dshm *h, uint32_t block, uint64_t expect);
void ref_cache(struct dshm *h, uint32_t block);
void ref_finish(struct dshm *h, uint32_t member);

/* magazine.c: the caller has locked its own member */
void magazine_add(struct dshm *h, uint32_t block);
void magazine_mark(struct dshm *h, uint32_t block);
uint32_t magazine_take(struct dshm *h, uint64_t pages);
void magazine_free(struct dshm *h);

/* block.c */
uint64_t gather(struct dshm *h, uint32_t home);
void descriptors_rebuild(struct dshm *h);
void memory_freed(struct dshm *h);

/* move.c: the end is locked */
int move_in(struct dshm *h, uint32_t queue, int64_t key, int64_t now);
int64_t move_out(struct dshm *h, uint32_t queue, enum move_op op);
void move_finish(struct dshm *h, struct queue *q, struct end *e);
int displaced_room(struct dshm *h);

/* bell.c */
int64_t now_ns(void);
int64_t now_coarse(void);
int bell_borrow(struct dshm *h);
void bell_return(struct dshm *h, uint32_t bell);
void bell_drop(struct dshm *h, uint32_t bell);
int64_t spin_limit(struct dshm *h);
void spin_told(struct dshm *h, int found);
void bell_sleep(struct dshm *h, uint32_t bell, int64_t until);
void bells_wake(struct dshm *h, const struct wakes *w);
void bells_wake_all(struct dshm *h);
void bells_rebuild(struct dshm *h);
void mask_set(struct dshm *h, _Atomic uint64_t *mask, _Atomic uint64_t *sum, uint32_t bell);
void mask_clear(struct dshm *h, _Atomic uint64_t *mask, _Atomic uint64_t *sum, uint32_t bell);
void mask_wake(struct dshm *h, _Atomic uint64_t *mask, _Atomic uint64_t *sum, int all);
int queue_ready(struct dshm *h, uint32_t queue, int put);
int64_t queue_expiry(struct dshm *h, uint32_t queue);
#endif
