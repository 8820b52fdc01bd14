/* What a dead member held comes back. Each step can be interrupted by the death of who does it, and done again. */
#include "group.h"

/* The group is locked: free a member slot with the bells it had. Holds must be gone. */
void member_clear(struct dshm *h, uint32_t m) {
    struct header *hd = h->hd;
    uint32_t queues = get32(&hd->n_queues);
    gather(h, m);
    for (uint32_t b = 0; b < hd->n_bells; b++) {
        if (get32(&h->bells[b].owner) != m + 1) continue;
        for (uint32_t q = 0; q < queues; q++) {
            mask_clear(h, readers_of(h, q), &h->queues[q].readers, b);
            mask_clear(h, writers_of(h, q), &h->queues[q].writers, b);
        }
        mask_clear(h, mem_waiters_of(h), &hd->mem_waiters, b);
        bell_drop(h, b);
    }
    put32(&h->members[m].state, MEMBER_FREE);
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
            if (get32(&it->state) == MEMBER_FREE || it->pid != pid) continue;
            uint64_t start = process_start(pid, &dead);
            if (dead || (start && it->start && start != it->start)) rc = (int)m;
            else if (rc == DSHM_E_MISSING) rc = DSHM_E_ALIVE;
        }
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

/* No lock is held: locking an end finishes what the dead had begun there, if nobody has locked it since. */
static int finish_moves(struct dshm *h, uint32_t m) {
    uint32_t queues = get32(&h->hd->n_queues);
    for (uint32_t i = 0; i < 2 * queues; i++) {
        struct queue *q = h->queues + i / 2;
        struct end *e = i % 2 ? &q->get : &q->put;
        if (get32(&e->move.op) == MOVE_NONE || e->move.member != m) continue;
        int rc = end_lock(h, q, e, now_ns() + 5000000000);
        if (rc) return rc == DSHM_E_TIMEOUT ? DSHM_E_STUCK : rc;
        end_unlock(e);
    }
    return DSHM_OK;
}

/* The group is locked: the next message of a dead member; the hold on it moves to the caller, other holds go. */
static int64_t next_lost(struct dshm *h, uint32_t m, struct dshm_lost *lost, int *freed) {
    uint32_t high = get32(&h->hd->blocks_high);
    for (uint32_t b = lost->cursor; b < high; b++) {
        struct hold *theirs = hold_of(h, m, b), *my = h->mine + b;
        uint32_t count = get32(&theirs->count), from = get32(&theirs->from);
        if (!count) continue;
        own_lock(h);
        if (from) { /* ours first, so that a message is rather reported twice than never if we die here */
            /* As displaced: if we die too it is reported again, but not counted as failed again. */
            if (!get32(&my->from)) put32(&my->from, from | DISPLACED);
            ref_change(h, h->member, b, 1);
            stop_here(h, DSHM_STOP_RECLAIM_HELD);
        }
        *freed |= ref_change(h, m, b, -(int32_t)count) == KIND_CACHED;
        own_unlock(h);
        if (!from) continue;
        lost->cursor = b + 1;
        lost->queue = FROM_QUEUE(from);
        if (lost->queue >= 0 && !(from & DISPLACED)) atomic_fetch_add(&h->queues[lost->queue].failed, 1);
        return key_of(h, b);
    }
    member_clear(h, m);
    *freed = 1;
    return DSHM_E_END;
}

int dshm_reclaim_next(struct dshm *h, uint32_t member, struct dshm_lost *lost) {
    int rc = dshm_enter(h), freed = 0;
    if (rc) return rc;
    if (!lost->cursor) rc = finish_moves(h, member);
    if (!rc) rc = dshm_lock(h);
    if (!rc) {
        own_lock(h); /* it may tell the home of a block, which may be us */
        ref_finish(h, member);
        own_unlock(h);
        lost->key = next_lost(h, member, lost, &freed);
        if (lost->key < 0) rc = (int)lost->key;
        if (rc == DSHM_E_END) atomic_store(&h->hd->backed, backed_count(h, 0, h->hd->high) << h->gran_shift);
        dshm_unlock(h);
        if (freed) memory_freed(h);
        if (rc == DSHM_E_END) bells_wake_all(h);
    }
    if (rc) dshm_leave(h); /* otherwise the block keeps what enter counted */
    return rc;
}
