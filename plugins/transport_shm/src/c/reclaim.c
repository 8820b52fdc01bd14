/* What a dead member held comes back; and the counters that say who holds what. */
#include "group.h"

/* Under the lock: free a member slot with the bells it had. Holds must be gone. */
void member_clear(struct dshm *h, uint32_t m) {
    struct header *hd = h->hd;
    for (uint32_t b = 0; b < hd->n_bells; b++) {
        if (h->bells[b].owner != m + 1) continue;
        for (uint32_t q = 0; q < hd->n_queues; q++) {
            mask_clear(readers_of(h, q), &h->queues[q].readers, b);
            mask_clear(writers_of(h, q), &h->queues[q].writers, b);
        }
        mask_clear(mem_waiters_of(h), &hd->mem_waiters, b);
        atomic_store(&h->bells[b].flag, 0);
        bell_drop(h, b);
    }
    h->members[m].state = MEMBER_FREE;
}

/* A member slot of this dead process; MISSING if it has none (any more). */
int dshm_reclaim_find(struct dshm *h, uint32_t pid) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = dshm_lock(h);
    if (!rc) {
        rc = DSHM_E_MISSING;
        for (uint32_t m = 0; m < h->hd->max_members && rc < 0; m++) {
            struct member *it = h->members + m;
            int dead;
            if (it->state == MEMBER_FREE || it->pid != pid) continue;
            uint64_t start = process_start(pid, &dead);
            if (dead || (start && it->start && start != it->start)) rc = (int)m;
            else if (rc == DSHM_E_MISSING) rc = DSHM_E_ALIVE;
        }
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

/* Under the lock: the next message of a dead member; the hold on it moves to the caller, other holds go. */
static int64_t next_lost(struct dshm *h, uint32_t m, struct dshm_lost *lost, struct wakes *w) {
    for (uint32_t b = lost->cursor; b < h->hd->max_blocks; b++) {
        struct hold *theirs = hold_of(h, m, b), *my = h->mine + b;
        uint32_t count = theirs->count, from = theirs->from;
        if (!count) continue;
        if (from) { /* ours first, so that a message is rather reported twice than never if we die here */
            my->count++;
            if (!my->from) my->from = from;
            h->blocks[b].refs++;
        }
        for (; theirs->count; block_unref(h, b, w)) {
            theirs->count--;
            STEP();
        }
        theirs->from = 0;
        if (!from) continue;
        lost->cursor = b + 1;
        lost->queue = (int32_t)(from & ~RETAINED) - 1;
        return key_of(h, b);
    }
    member_clear(h, m);
    return DSHM_E_END;
}

int dshm_reclaim_next(struct dshm *h, uint32_t member, struct dshm_lost *lost) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    struct wakes w = {0, {0}};
    rc = dshm_lock(h);
    if (!rc) {
        lost->key = next_lost(h, member, lost, &w);
        if (lost->key < 0) rc = (int)lost->key;
        if (rc == DSHM_E_END) h->hd->backed = backed_count(h, 0, h->hd->high) << h->gran_shift;
        dshm_unlock(h);
        bells_wake(h, &w);
        if (rc == DSHM_E_END) bells_wake_all(h);
    }
    if (rc) dshm_leave(h); /* otherwise the block keeps what enter counted */
    return rc;
}

int dshm_totals(struct dshm *h, struct dshm_totals *out) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = dshm_lock(h);
    if (!rc) {
        struct header *hd = h->hd;
        *out = (struct dshm_totals){hd->n_used, hd->in_use, hd->backed, hd->limit, hd->repairs, hd->max_members,
                                    hd->n_queues};
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

int dshm_member_use(struct dshm *h, uint32_t m, struct dshm_use *out) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    memset(out, 0, sizeof *out);
    rc = m < h->hd->max_members ? dshm_lock(h) : DSHM_E_MISSING;
    if (!rc) {
        if (h->members[m].state == MEMBER_FREE) rc = DSHM_E_MISSING;
        else {
            out->pid = h->members[m].pid;
            memcpy(out->label, h->members[m].label, sizeof out->label);
            for (uint32_t b = 0; b < h->hd->max_blocks; b++)
                if (hold_of(h, m, b)->count) {
                    out->blocks++;
                    out->bytes += granules(h, h->blocks[b].size) << h->gran_shift;
                }
        }
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

int dshm_queue_info(struct dshm *h, uint32_t queue, struct dshm_queue_info *out) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = queue < h->hd->n_queues ? dshm_lock(h) : DSHM_E_MISSING;
    if (!rc) {
        struct queue *q = h->queues + queue;
        uint64_t head = get64(&q->head), tail = get64(&q->tail);
        *out = (struct dshm_queue_info){.depth = q->depth, .overflow = q->overflow, .level = (uint32_t)(tail - head),
                                        .closed = atomic_load(&q->closed), .sent = tail + q->dropped_new,
                                        .delivered = head - q->dropped_old,
                                        .dropped = q->dropped_old + q->dropped_new};
        memcpy(out->name, q->name, sizeof out->name);
        for (uint64_t at = head; at != tail; at++)
            out->bytes += granules(h, h->blocks[*slot_of(h, q, at)].size) << h->gran_shift;
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}
