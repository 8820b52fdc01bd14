/* What has a name in a group: queues and boards. Both are made under the lock of the group, and stay. */
#include <stdio.h>

#include "layout.h"

static int find_queue(struct dshm *h, const char *name) {
    uint32_t n = atomic_load(&h->hd->n_queues);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(h->queues[i].name, name)) return (int)i;
    return DSHM_E_MISSING;
}

/* No lock: a queue is counted when all of it is there, and never changes its name. */
int dshm_queue_find(struct dshm *h, const char *name) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = find_queue(h, name);
    dshm_leave(h);
    return rc;
}

/* Tables get their pages before they are written, for a fault on them could not be reported. */
static int back(struct dshm *h, const void *start, uint64_t bytes) {
    return populate_range(h, (uint64_t)((const uint8_t *)start - h->base), bytes);
}

static int create(struct dshm *h, const char *name, uint32_t depth, int overflow, uint64_t max_age, uint64_t start) {
    struct header *hd = h->hd;
    uint32_t n = get32(&hd->n_queues), slots = 4; /* a whole cache line */
    while (slots < depth) slots *= 2;
    if (find_queue(h, name) >= 0) return DSHM_E_EXISTS;
    if (n >= hd->max_queues || slots > SLOT_POOL - hd->slots_used) return DSHM_E_TABLE;
    struct queue *q = h->queues + n;
    int rc = back(h, q, sizeof *q);
    if (!rc) rc = back(h, h->slots + hd->slots_used, slots * sizeof(struct slot));
    if (!rc) rc = lock_init(&q->put.lock);
    if (!rc) rc = lock_init(&q->get.lock);
    if (rc) return rc;
    q->depth = depth;
    q->room = overflow == DSHM_KEEP_LATEST ? 1 : depth;
    q->mask = slots - 1;
    q->overflow = (uint32_t)overflow;
    q->slots_at = hd->slots_used;
    q->max_age = max_age;
    q->start = q->put.seen = q->get.seen = start;
    put64(&q->put.count, start);
    put64(&q->get.count, start);
    q->put.cpu = q->get.cpu = -1;
    snprintf(q->name, NAME_BYTES, "%s", name);
    hd->slots_used += slots;
    atomic_store(&hd->n_queues, n + 1); /* publishes all of it */
    return (int)n;
}

/* `start`: where the counts begin, for tests of what happens when they wrap around. */
int dshm_queue_create(struct dshm *h, const char *name, uint32_t depth, int overflow, uint64_t max_age_ns,
                      uint64_t start) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = dshm_lock(h);
    if (!rc) {
        rc = create(h, name, depth, overflow, max_age_ns, start);
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

/* Two steps, so that no message is left in a queue whose consumers have been told that it is closed: first puts are
 * refused; then whoever had begun one is waited for, unless he is stopped; then consumers are told. */
int dshm_queue_close(struct dshm *h, uint32_t queue) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    if (queue >= get32(&h->hd->n_queues)) rc = DSHM_E_MISSING;
    else {
        struct queue *q = h->queues + queue;
        uint32_t open = 0;
        atomic_compare_exchange_strong(&q->closed, &open, 1);
        stop_here(h, DSHM_STOP_CLOSE_MARKED);
        if (end_lock(h, q, &q->put, now_ns() + 100000000) == DSHM_OK) end_unlock(&q->put);
        atomic_store(&q->closed, 2);
        atomic_thread_fence(memory_order_seq_cst);
        mask_wake(h, readers_of(h, queue), &q->readers, 1);
        mask_wake(h, writers_of(h, queue), &q->writers, 1);
    }
    dshm_leave(h);
    return rc;
}

static int board(struct dshm *h, const char *name, uint32_t words, uint64_t *address) {
    struct header *hd = h->hd;
    struct board *it = h->boards;
    uint32_t i = 0, whole = (words + 7) & ~7u; /* no line is shared by two boards */
    for (; i < hd->n_boards && strcmp(it[i].name, name) != 0; i++) {}
    if (i == hd->n_boards) {
        if (i == hd->max_boards || words > BOARD_POOL || whole > BOARD_POOL - hd->words_used) return DSHM_E_TABLE;
        int rc = back(h, it + i, sizeof *it);
        if (!rc) rc = back(h, h->words + hd->words_used, whole * 8ull);
        if (rc) return rc;
        snprintf(it[i].name, NAME_BYTES, "%s", name);
        it[i].words = words;
        it[i].at = hd->words_used;
        hd->words_used += whole;
        STEP();
        hd->n_boards = i + 1;
    }
    if (it[i].words != words) return DSHM_E_EXISTS;
    *address = (uint64_t)(uintptr_t)(h->words + it[i].at);
    return DSHM_OK;
}

/* The words of that name, made when first asked for. On success the mapping stays until `dshm_unpin`. */
int dshm_board(struct dshm *h, const char *name, uint32_t words, uint64_t *address) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = dshm_lock(h);
    if (!rc) {
        rc = board(h, name, words, address);
        dshm_unlock(h);
    }
    if (rc) dshm_leave(h);
    return rc;
}

void dshm_unpin(struct dshm *h) {
    if (!is_forked(h)) dshm_leave(h);
}
