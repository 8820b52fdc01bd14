/* Queues: bounded rings of block numbers. All of it happens under the lock of the group; nothing outside this file
 * and the repair knows, so that a ring without a lock can take its place. */
#include <sched.h>

#include "layout.h"

static uint64_t level(struct queue *q) { return get64(&q->tail) - get64(&q->head); }

static void note_cpu(_Atomic int32_t *where) {
    int cpu = sched_getcpu();
    if (atomic_load_explicit(where, memory_order_relaxed) != cpu)
        atomic_store_explicit(where, cpu, memory_order_relaxed);
}

static void begin(struct dshm *h, uint32_t op, uint32_t queue, uint32_t block, uint64_t pos) {
    struct intent *in = &h->hd->intent;
    in->member = h->member;
    in->queue = queue;
    in->block = block;
    in->count_before = h->mine[block].count;
    in->pos_before = pos;
    STEP();
    in->op = op;
    STEP();
}

static void end(struct dshm *h) {
    STEP();
    h->hd->intent.op = INTENT_NONE;
}

static void give_up_hold(struct dshm *h, uint32_t b) {
    struct hold *hold = h->mine + b;
    if (--hold->count == 0) hold->from = 0;
}

static void drop_oldest(struct dshm *h, struct queue *q, struct wakes *w) {
    uint64_t at = get64(&q->head);
    uint32_t old = *slot_of(h, q, at);
    q->dropped_old++;
    STEP();
    set64(&q->head, at + 1);
    STEP();
    block_unref(h, old, w);
}

static int try_put(struct dshm *h, uint32_t queue, int64_t key, struct wakes *w) {
    struct queue *q = h->queues + queue;
    uint32_t b = (uint32_t)key & KEY_MASK;
    if (!h->mine[b].count || h->blocks[b].gen != (uint64_t)key >> KEY_BITS) return DSHM_E_BADREF;
    if (atomic_load_explicit(&q->closed, memory_order_relaxed)) return DSHM_E_CLOSED;
    uint64_t at = get64(&q->tail);
    if (at - get64(&q->head) >= q->depth) {
        if (q->overflow == DSHM_BLOCK) return DSHM_E_TIMEOUT;
        if (q->overflow == DSHM_DROP_NEWEST) {
            q->dropped_new++;
            give_up_hold(h, b);
            STEP();
            block_unref(h, b, w);
            return DSHM_OK;
        }
        drop_oldest(h, q, w);
    }
    begin(h, INTENT_PUT, queue, b, at);
    *slot_of(h, q, at) = b;
    STEP();
    stop_here(h, DSHM_STOP_PUT_SLOT);
    set64(&q->tail, at + 1);
    STEP();
    stop_here(h, DSHM_STOP_PUT_TAIL);
    give_up_hold(h, b);
    end(h);
    note_cpu(&q->put_cpu);
    if (q->readers) mask_collect(h, readers_of(h, queue), &q->readers, 0, w);
    return DSHM_OK;
}

static int64_t try_get(struct dshm *h, uint32_t queue, struct wakes *w) {
    struct queue *q = h->queues + queue;
    uint64_t at = get64(&q->head);
    if (at == get64(&q->tail))
        return atomic_load_explicit(&q->closed, memory_order_relaxed) ? DSHM_E_CLOSED : DSHM_E_TIMEOUT;
    uint32_t b = *slot_of(h, q, at);
    struct hold *hold = h->mine + b;
    begin(h, INTENT_GET, queue, b, at);
    set64(&q->head, at + 1);
    STEP();
    stop_here(h, DSHM_STOP_GET_HEAD);
    hold->count++;
    hold->from = (hold->from & RETAINED) | (queue + 1);
    end(h);
    note_cpu(&q->get_cpu);
    if (q->writers) mask_collect(h, writers_of(h, queue), &q->writers, 0, w);
    return key_of(h, b);
}

static int64_t attempt(struct dshm *h, uint32_t queue, int64_t key, int put, struct wakes *w) {
    return put ? try_put(h, queue, key, w) : try_get(h, queue, w);
}

static int blocked(struct queue *q, int put) {
    if (atomic_load_explicit(&q->closed, memory_order_relaxed)) return 0;
    return put ? level(q) >= q->depth : level(q) == 0;
}

/* Before sleeping: let others run, then look again for a while if the other end was last seen on another CPU. */
static void linger(struct dshm *h, struct queue *q, int put) {
    for (int i = 0; i < YIELDS && bell_yield(h); i++)
        if (!blocked(q, put)) return;
    if (!h->hd->spin_ns) return;
    _Atomic int32_t *other = put ? &q->get_cpu : &q->put_cpu;
    int64_t until = now_ns() + (int64_t)h->hd->spin_ns;
    while (blocked(q, put) && atomic_load_explicit(other, memory_order_relaxed) != sched_getcpu()) {
        for (int i = 0; i < 16; i++) cpu_relax();
        if (now_ns() >= until) return;
    }
}

/* Put or get, asleep in between until `wait_ns` have passed. */
static int64_t move(struct dshm *h, uint32_t queue, int64_t key, int put, int64_t wait_ns) {
    struct queue *q = h->queues + queue;
    struct wakes w = {0, {0}};
    int64_t until = 0, result;
    int bell = -1, lingered = 0;
    for (;;) {
        if (dshm_lock(h)) return DSHM_E_BROKEN;
        uint64_t *mask = put ? writers_of(h, queue) : readers_of(h, queue), *sum = put ? &q->writers : &q->readers;
        if (bell >= 0) {
            mask_clear(mask, sum, (uint32_t)bell);
            bell_drop(h, (uint32_t)bell);
            bell = -1;
        }
        result = attempt(h, queue, key, put, &w);
        if (result != DSHM_E_TIMEOUT || wait_ns <= 0 || atomic_load(&h->closed)) break;
        int64_t now = now_ns();
        if (!until) until = now + wait_ns;
        if (now >= until) break;
        if (!lingered) {
            dshm_unlock(h);
            linger(h, q, put);
            lingered = 1;
            continue;
        }
        bell = bell_take(h, 0);
        if (bell < 0) {
            result = bell;
            break;
        }
        mask_set(mask, sum, (uint32_t)bell);
        dshm_unlock(h);
        bell_sleep(h, (uint32_t)bell, until);
    }
    dshm_unlock(h);
    bells_wake(h, &w);
    return result;
}

/* No enter: the block that the caller holds keeps the mapping, until it is in the queue. */
int dshm_put(struct dshm *h, uint32_t queue, int64_t key, int64_t wait_ns) {
    if (is_forked(h)) return DSHM_E_FORKED;
    if (key < 0) return DSHM_E_BADREF;
    if (atomic_load(&h->closed)) return DSHM_E_GROUP_CLOSED;
    if (((uint32_t)key & KEY_MASK) >= h->hd->max_blocks) return DSHM_E_BADREF;
    int rc = (int)move(h, queue, key, 1, wait_ns);
    if (rc == DSHM_OK) dshm_leave(h); /* what the block had counted */
    return rc;
}

int64_t dshm_get(struct dshm *h, uint32_t queue, int64_t wait_ns) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    struct queue *q = h->queues + queue;
    int64_t key = DSHM_E_TIMEOUT;
    if (wait_ns > 0 || level(q) || atomic_load(&q->closed)) key = move(h, queue, 0, 0, wait_ns);
    if (key < 0) dshm_leave(h); /* otherwise the block keeps what enter counted */
    return key;
}

int64_t dshm_level(struct dshm *h, uint32_t queue) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    int64_t n = (int64_t)level(h->queues + queue);
    dshm_leave(h);
    return n < 0 ? 0 : n;
}

static int find(struct dshm *h, const char *name) {
    for (uint32_t i = 0; i < h->hd->n_queues; i++)
        if (!strcmp(h->queues[i].name, name)) return (int)i;
    return DSHM_E_MISSING;
}

int dshm_queue_find(struct dshm *h, const char *name) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = dshm_lock(h);
    if (!rc) {
        rc = find(h, name);
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

static int create(struct dshm *h, const char *name, uint32_t depth, int overflow) {
    struct header *hd = h->hd;
    uint32_t slots = (depth + 15u) & ~15u; /* whole cache lines */
    if (find(h, name) >= 0) return DSHM_E_EXISTS;
    if (hd->n_queues >= hd->max_queues || slots < depth || slots > SLOT_POOL - hd->slots_used) return DSHM_E_TABLE;
    struct queue *q = h->queues + hd->n_queues;
    q->depth = depth;
    q->overflow = (uint32_t)overflow;
    q->slots_at = hd->slots_used;
    q->put_cpu = q->get_cpu = -1;
    strncpy(q->name, name, NAME_BYTES - 1);
    hd->slots_used += slots;
    STEP();
    return (int)hd->n_queues++;
}

int dshm_queue_create(struct dshm *h, const char *name, uint32_t depth, int overflow) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = dshm_lock(h);
    if (!rc) {
        rc = create(h, name, depth, overflow);
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

static void close_locked(struct dshm *h, uint32_t queue, struct wakes *w) {
    struct queue *q = h->queues + queue;
    atomic_store(&q->closed, 1);
    mask_collect(h, readers_of(h, queue), &q->readers, 1, w);
    mask_collect(h, writers_of(h, queue), &q->writers, 1, w);
}

int dshm_queue_close(struct dshm *h, uint32_t queue) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    struct wakes w = {0, {0}};
    rc = dshm_lock(h);
    if (!rc) {
        close_locked(h, queue, &w);
        dshm_unlock(h);
        bells_wake(h, &w);
    }
    dshm_leave(h);
    return rc;
}
