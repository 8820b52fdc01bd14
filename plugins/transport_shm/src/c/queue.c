/* Queues: bounded rings of block keys. Each end has a lock of its own, so producers meet only producers and consumers
 * only consumers; between the two there is nothing but the counts. */
#include <sched.h>

#include "layout.h"

enum { PATIENCE = 100000000 }; /* how long a lock may be waited for by a call that is not to wait for the queue */

static void note_cpu(_Atomic int32_t *where) {
    int cpu = sched_getcpu();
    if (atomic_load_explicit(where, memory_order_relaxed) != cpu)
        atomic_store_explicit(where, cpu, memory_order_relaxed);
}

/* The end is locked: whether there are `room` messages, as far as this end has to know. */
static int is_full(struct queue *q, uint64_t at) {
    if (at - q->put.seen < q->room) return 0;
    q->put.seen = look64(&q->get.count);
    return at - q->put.seen >= q->room;
}

static int is_empty(struct queue *q, uint64_t at) {
    if (at != q->get.seen) return 0;
    q->get.seen = look64(&q->put.count);
    return at == q->get.seen;
}

static int too_old(struct dshm *h, struct queue *q, uint64_t at, int64_t now) {
    return (int64_t)(get64(&slot_at(h, q, at)->time) + q->max_age) <= now;
}

/* The producers' end is locked: take the oldest message out, or all that are too old. */
static int make_room(struct dshm *h, uint32_t queue, int64_t until, int64_t now) {
    struct queue *q = h->queues + queue;
    int rc = end_lock(h, q, &q->get, until);
    if (rc) return rc;
    int64_t key = 0;
    for (;;) {
        uint64_t at = get64(&q->get.count);
        if (is_empty(q, at)) break;
        if (q->overflow == DSHM_MAX_AGE ? !too_old(h, q, at, now) : get64(&q->put.count) - at < q->room) break;
        key = move_out(h, queue, MOVE_DROP);
        if (key < 0) break;
        atomic_fetch_add(&h->refs, 1);
    }
    end_unlock(&q->get);
    return key < 0 ? (int)key : DSHM_OK;
}

/* The queue is full, and the new message gives way: it stays with the caller, as displaced. */
static int turn_away(struct dshm *h, uint32_t queue, int64_t key) {
    struct queue *q = h->queues + queue;
    uint32_t b = (uint32_t)key & KEY_MASK;
    int rc = DSHM_E_BADREF;
    own_lock(h);
    struct hold *hold = h->mine + b;
    if (!displaced_room(h)) rc = DSHM_E_SYSTEM;
    else if (get32(&hold->count) && h->blocks[b].gen == (uint64_t)key >> KEY_BITS) {
        if (!(get32(&hold->from) & ~RETAINED)) put32(&hold->from, get32(&hold->from) | (queue + 1) | DISPLACED);
        STEP();
        put64(&q->put.dropped, get64(&q->put.dropped) + 1);
        h->displaced[h->n_displaced++] = (struct displaced){queue, key};
        rc = DSHM_OK;
    }
    own_unlock(h);
    return rc;
}

enum { TURNED_AWAY = 1 };

/* The producers' end is locked. */
static int put_locked(struct dshm *h, uint32_t queue, int64_t key, int64_t until) {
    struct queue *q = h->queues + queue;
    uint64_t at = get64(&q->put.count);
    stop_here(h, DSHM_STOP_PUT_LOCKED);
    if (atomic_load_explicit(&q->closed, memory_order_relaxed)) return DSHM_E_CLOSED;
    int64_t now = q->overflow == DSHM_MAX_AGE ? now_ns() : now_coarse();
    if (is_full(q, at)) {
        if (!get32(&h->mine[(uint32_t)key & KEY_MASK].count)) return DSHM_E_BADREF;
        if (q->overflow == DSHM_DROP_NEWEST) {
            int rc = turn_away(h, queue, key);
            return rc ? rc : TURNED_AWAY;
        }
        int rc = q->overflow == DSHM_BLOCK ? DSHM_E_TIMEOUT : make_room(h, queue, until, now);
        if (rc) return rc;
        if (is_full(q, at)) return DSHM_E_TIMEOUT;
    }
    int rc = move_in(h, queue, key, now);
    if (!rc) note_cpu(&q->put.cpu);
    return rc;
}

/* The consumers' end is locked. */
static int64_t get_locked(struct dshm *h, uint32_t queue) {
    struct queue *q = h->queues + queue;
    stop_here(h, DSHM_STOP_GET_LOCKED);
    for (;;) {
        uint64_t at = get64(&q->get.count);
        if (is_empty(q, at)) {
            if (atomic_load_explicit(&q->closed, memory_order_acquire) != 2) return DSHM_E_TIMEOUT;
            if (is_empty(q, at)) return DSHM_E_CLOSED; /* once more: the last one came before it was closed */
        }
        int drop = q->overflow == DSHM_MAX_AGE && too_old(h, q, at, now_ns());
        int64_t key = move_out(h, queue, drop ? MOVE_DROP : MOVE_GET);
        if (key < 0 || !drop) {
            if (key >= 0) note_cpu(&q->get.cpu);
            return key;
        }
        atomic_fetch_add(&h->refs, 1);
    }
}

static int64_t attempt(struct dshm *h, uint32_t queue, int64_t key, int put, int64_t until) {
    struct queue *q = h->queues + queue;
    struct end *e = put ? &q->put : &q->get;
    int64_t rc = end_lock(h, q, e, until);
    if (rc) return rc;
    uint64_t before = get64(&q->get.count);
    rc = put ? put_locked(h, queue, key, until) : get_locked(h, queue);
    int taken = get64(&q->get.count) != before;
    end_unlock(e);
    stop_here(h, put ? DSHM_STOP_PUT_BELL : DSHM_STOP_GET_BELL);
    atomic_thread_fence(memory_order_seq_cst); /* between what was done and the look at who waits: see bell.c */
    if (put && rc == DSHM_OK && get64(&q->readers)) mask_wake(h, readers_of(h, queue), &q->readers, 0);
    if (taken && get64(&q->writers)) mask_wake(h, writers_of(h, queue), &q->writers, 0);
    return rc;
}

/* Look again for a while, as long as the other end was last seen on another CPU. */
static int linger(struct dshm *h, uint32_t queue, int put) {
    struct queue *q = h->queues + queue;
    if (!h->hd->spin_ns) return 0;
    _Atomic int32_t *other = put ? &q->get.cpu : &q->put.cpu;
    int64_t until = spin_limit(h);
    while (!queue_ready(h, queue, put)) {
        int cpu = atomic_load_explicit(other, memory_order_relaxed);
        if (cpu < 0 || cpu == sched_getcpu()) return 0;
        if (now_ns() >= until) {
            spin_told(h, 0);
            return 0;
        }
        for (int i = 0; i < 16; i++) cpu_relax();
    }
    spin_told(h, 1);
    return 1;
}

/* Asleep until the queue may be ready; a code if there is no bell. */
static int doze(struct dshm *h, uint32_t queue, int put, int *bell, int64_t until) {
    struct queue *q = h->queues + queue;
    _Atomic uint64_t *mask = put ? writers_of(h, queue) : readers_of(h, queue), *sum = put ? &q->writers : &q->readers;
    if (*bell < 0 && (*bell = bell_borrow(h)) < 0) return *bell;
    atomic_store(&h->bells[*bell].flag, 1);
    mask_set(h, mask, sum, (uint32_t)*bell);
    stop_here(h, DSHM_STOP_WAIT_ENROLLED);
    int64_t expiry = put ? queue_expiry(h, queue) : INT64_MAX;
    if (!queue_ready(h, queue, put)) bell_sleep(h, (uint32_t)*bell, expiry < until ? expiry : until);
    stop_here(h, DSHM_STOP_WAIT_WOKEN);
    mask_clear(h, mask, sum, (uint32_t)*bell);
    return DSHM_OK;
}

/* Put or get, asleep in between until `wait_ns` have passed. */
static int64_t move(struct dshm *h, uint32_t queue, int64_t key, int put, int64_t wait_ns) {
    struct queue *q = h->queues + queue;
    int64_t result = attempt(h, queue, key, put, 0);
    if ((result != DSHM_E_TIMEOUT && result != DSHM_E_BUSY) || wait_ns == DSHM_NOT_AT_ALL) return result;
    if (result == DSHM_E_TIMEOUT && wait_ns <= 0) return result;
    int64_t begun = now_ns(), until = begun + (wait_ns > 0 ? wait_ns : 0);
    int bell = -1, rc = DSHM_OK, lingered = 0;
    for (;;) {
        result = attempt(h, queue, key, put, until < begun + PATIENCE ? begun + PATIENCE : until);
        if (result != DSHM_E_TIMEOUT || atomic_load(&h->closed) || now_ns() >= until) break;
        if (!lingered++ && linger(h, queue, put)) continue;
        if ((rc = doze(h, queue, put, &bell, until)) < 0) break;
    }
    if (bell >= 0) bell_return(h, (uint32_t)bell);
    atomic_fetch_add_explicit(put ? &q->put.waited_ns : &q->get.waited_ns, (uint64_t)(now_ns() - begun),
                              memory_order_relaxed);
    return rc < 0 ? rc : result;
}

/* No enter: the block that the caller holds keeps the mapping, until it is in the queue. */
int dshm_put(struct dshm *h, uint32_t queue, int64_t key, int64_t wait_ns) {
    if (is_forked(h)) return DSHM_E_FORKED;
    if (key < 0) return DSHM_E_BADREF;
    if (atomic_load(&h->closed)) return DSHM_E_GROUP_CLOSED;
    if (((uint32_t)key & KEY_MASK) >= h->hd->max_blocks) return DSHM_E_BADREF;
    if (queue >= get32(&h->hd->n_queues)) return DSHM_E_MISSING;
    int rc = (int)move(h, queue, key, 1, wait_ns);
    if (rc == DSHM_OK) dshm_leave(h); /* what the block had counted */
    return rc == TURNED_AWAY ? DSHM_OK : rc;
}

int64_t dshm_get(struct dshm *h, uint32_t queue, int64_t wait_ns) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    int64_t key = DSHM_E_TIMEOUT;
    if (queue >= get32(&h->hd->n_queues)) key = DSHM_E_MISSING;
    else if (wait_ns > 0 || queue_ready(h, queue, 0)) key = move(h, queue, 0, 0, wait_ns);
    if (key < 0) dshm_leave(h); /* otherwise the block keeps what enter counted */
    return key;
}

int64_t dshm_take_dropped(struct dshm *h, uint32_t queue) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    int64_t key = DSHM_E_MISSING;
    own_lock(h);
    for (uint32_t i = 0; i < h->n_displaced; i++) {
        if (h->displaced[i].queue != queue) continue;
        key = h->displaced[i].key;
        memmove(h->displaced + i, h->displaced + i + 1, (--h->n_displaced - i) * sizeof *h->displaced);
        break;
    }
    own_unlock(h);
    dshm_leave(h);
    return key;
}

int64_t dshm_level(struct dshm *h, uint32_t queue) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    int64_t n = DSHM_E_MISSING;
    if (queue < get32(&h->hd->n_queues)) {
        struct queue *q = h->queues + queue;
        uint64_t head = look64(&q->get.count);
        n = (int64_t)(look64(&q->put.count) - head);
        if (n > (int64_t)q->depth) n = q->depth; /* the head moved on between the two looks */
    }
    dshm_leave(h);
    return n;
}
