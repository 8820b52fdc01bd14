/* The lock of a group, and the repair when a process died holding it. */
#include <errno.h>

#include "layout.h"

enum { SPINS = 200 };

static void finish_intent(struct dshm *h) {
    struct intent *in = &h->hd->intent;
    if (in->op == INTENT_PUT || in->op == INTENT_GET) {
        struct queue *q = h->queues + in->queue;
        struct hold *hold = hold_of(h, in->member, in->block);
        int put = in->op == INTENT_PUT;
        int moved = get64(put ? &q->tail : &q->head) != in->pos_before;
        hold->count = in->count_before + (moved ? (put ? -1u : 1u) : 0u);
        if (moved && !put) hold->from = (hold->from & RETAINED) | (in->queue + 1);
        if (!hold->count) hold->from = 0;
    }
    in->op = INTENT_NONE;
}

static void count_refs(struct dshm *h) {
    struct header *hd = h->hd;
    for (uint32_t b = 0; b < hd->max_blocks; b++) h->blocks[b].refs = 0;
    for (uint32_t m = 0; m < hd->max_members; m++) {
        if (h->members[m].state == MEMBER_FREE) continue;
        for (uint32_t b = 0; b < hd->max_blocks; b++) h->blocks[b].refs += hold_of(h, m, b)->count;
    }
    for (uint32_t i = 0; i < hd->n_queues; i++) {
        struct queue *q = h->queues + i;
        for (uint64_t at = get64(&q->head); at != get64(&q->tail); at++) h->blocks[*slot_of(h, q, at)].refs++;
    }
}

static void repair(struct dshm *h) {
    struct header *hd = h->hd;
    finish_intent(h);
    count_refs(h);
    hd->block_free = NIL;
    hd->n_used = hd->in_use = 0;
    for (uint32_t b = hd->max_blocks; b-- > 0;) {
        struct block *blk = h->blocks + b;
        blk->used = blk->refs != 0;
        if (blk->used) {
            hd->n_used++;
            hd->in_use += granules(h, blk->size) << h->gran_shift;
        } else {
            blk->next = hd->block_free;
            hd->block_free = b;
        }
    }
    buddy_rebuild(h);
    hd->backed = backed_count(h, 0, hd->high) << h->gran_shift;
    masks_repair(h);
    hd->repairs++;
}

int dshm_lock(struct dshm *h) {
    pthread_mutex_t *lock = &h->hd->lock;
    int rc = EBUSY;
    for (int i = 0; i < SPINS && rc == EBUSY; i++) {
        rc = pthread_mutex_trylock(lock);
        if (rc == EBUSY) cpu_relax();
    }
    if (rc == EBUSY) rc = pthread_mutex_lock(lock);
    if (__builtin_expect(rc == 0, 1)) return DSHM_OK;
    if (rc != EOWNERDEAD) return DSHM_E_BROKEN;
    repair(h);
    pthread_mutex_consistent(lock);
    bells_wake_all(h);
    return DSHM_OK;
}

void dshm_unlock(struct dshm *h) { pthread_mutex_unlock(&h->hd->lock); }
