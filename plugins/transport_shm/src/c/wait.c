/* Waiting for any of many queues. */
#include <sched.h>

#include "layout.h"

struct want {
    const uint32_t *readable, *writable;
    uint32_t n_readable, n_writable;
};

/* When the oldest message of a queue is too old, by the clock of `now_ns`; never, for most queues. */
int64_t queue_expiry(struct dshm *h, uint32_t queue) {
    struct queue *q = h->queues + queue;
    uint64_t head = look64(&q->get.count);
    if (q->overflow != DSHM_MAX_AGE || head == look64(&q->put.count)) return INT64_MAX;
    return (int64_t)(get64(&slot_at(h, q, head)->time) + q->max_age);
}

/* Whether put (or get) has something to say other than "wait". */
int queue_ready(struct dshm *h, uint32_t queue, int put) {
    struct queue *q = h->queues + queue;
    uint64_t head = look64(&q->get.count), level = look64(&q->put.count) - head;
    uint32_t closed = atomic_load_explicit(&q->closed, memory_order_acquire);
    if (!put) return level || closed == 2;
    if (level < q->room || closed) return 1;
    if (q->overflow == DSHM_MAX_AGE) return queue_expiry(h, queue) <= now_ns();
    return q->overflow != DSHM_BLOCK;
}

static int ready(struct dshm *h, const struct want *w) {
    for (uint32_t i = 0; i < w->n_readable; i++)
        if (queue_ready(h, w->readable[i], 0)) return 1;
    for (uint32_t i = 0; i < w->n_writable; i++)
        if (queue_ready(h, w->writable[i], 1)) return 1;
    return 0;
}

static int elsewhere(struct dshm *h, const struct want *w) {
    int here = sched_getcpu(), cpu;
    for (uint32_t i = 0; i < w->n_readable; i++) {
        cpu = atomic_load_explicit(&h->queues[w->readable[i]].put.cpu, memory_order_relaxed);
        if (cpu >= 0 && cpu != here) return 1;
    }
    for (uint32_t i = 0; i < w->n_writable; i++) {
        cpu = atomic_load_explicit(&h->queues[w->writable[i]].get.cpu, memory_order_relaxed);
        if (cpu >= 0 && cpu != here) return 1;
    }
    return 0;
}

/* Look again for a while, as long as another end was last seen on another CPU: its thread may be about to come. */
static void linger(struct dshm *h, const struct bell *bell, const struct want *w) {
    if (!h->hd->spin_ns) return;
    int64_t until = spin_limit(h);
    while (elsewhere(h, w)) {
        int found = ready(h, w) || atomic_load(&bell->rung);
        if (found || now_ns() >= until) {
            spin_told(h, found);
            return;
        }
        for (int i = 0; i < 16; i++) cpu_relax();
    }
}

static void enroll(struct dshm *h, uint32_t bell, int on, const struct want *w) {
    void (*set)(struct dshm *, _Atomic uint64_t *, _Atomic uint64_t *, uint32_t) = on ? mask_set : mask_clear;
    for (uint32_t i = 0; i < w->n_readable; i++)
        set(h, readers_of(h, w->readable[i]), &h->queues[w->readable[i]].readers, bell);
    for (uint32_t i = 0; i < w->n_writable; i++)
        set(h, writers_of(h, w->writable[i]), &h->queues[w->writable[i]].writers, bell);
}

static int64_t soonest(struct dshm *h, const struct want *w, int64_t until) {
    for (uint32_t i = 0; i < w->n_writable; i++) {
        int64_t at = queue_expiry(h, w->writable[i]);
        if (at < until) until = at;
    }
    return until;
}

static int bell_wait(struct dshm *h, uint32_t b, const struct want *w, int64_t wait_ns) {
    struct bell *bell = h->bells + b;
    if (get32(&bell->rung) && atomic_exchange(&bell->rung, 0)) return 1;
    int found = ready(h, w);
    if (found || wait_ns <= 0) return found;
    int64_t until = now_ns() + wait_ns;
    linger(h, bell, w);
    if (ready(h, w)) return 1;
    for (;;) {
        atomic_store(&bell->flag, 1);
        enroll(h, b, 1, w);
        stop_here(h, DSHM_STOP_WAIT_ENROLLED);
        if (!ready(h, w) && !atomic_load(&bell->rung)) bell_sleep(h, b, soonest(h, w, until));
        stop_here(h, DSHM_STOP_WAIT_WOKEN);
        enroll(h, b, 0, w);
        found = ready(h, w);
        atomic_store(&bell->flag, 0);
        if (atomic_exchange(&bell->rung, 0) || found) return 1;
        if (now_ns() >= until || atomic_load(&h->closed)) return 0; /* else somebody woke us late, for an earlier wait */
    }
}

static int check(struct dshm *h, const uint32_t *queues, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (queues[i] >= get32(&h->hd->n_queues)) return DSHM_E_MISSING;
    return DSHM_OK;
}

int dshm_bell_wait(struct dshm *h, uint32_t bell, const uint32_t *readable, uint32_t n_readable,
                   const uint32_t *writable, uint32_t n_writable, int64_t wait_ns) {
    const struct want w = {readable, writable, n_readable, n_writable};
    int rc = dshm_enter(h);
    if (rc) return rc;
    if (check(h, readable, n_readable) || check(h, writable, n_writable)) rc = DSHM_E_MISSING;
    else rc = bell_wait(h, bell, &w, wait_ns);
    dshm_leave(h);
    return rc;
}
