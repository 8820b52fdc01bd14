/* One reference moves from a hold into a queue or out of it. The end of the queue is locked by the caller; storing the
 * end's count is what sends or takes the message. Before it begins, the move is written down in the end, so that who
 * locks the end after a death in between (`end_lock`) can make the hold agree with the count. */
#include <stdlib.h>

#include "layout.h"

static void begin(struct dshm *h, struct end *e, enum move_op op, uint32_t queue, uint32_t b, uint64_t at) {
    struct move *mv = &e->move;
    mv->member = h->member;
    mv->queue = queue;
    mv->block = b;
    mv->before = get32(&h->mine[b].count);
    mv->position = at;
    mv->dropped = get64(&e->dropped);
    STEP();
    put32(&mv->op, (uint32_t)op);
    STEP();
}

static void end(struct end *e) {
    STEP();
    put32(&e->move.op, MOVE_NONE);
}

/* Where a block came from, when a queue gave it: a hold that is delivered already stays so. */
static void set_from(struct hold *hold, uint32_t queue, enum move_op op) {
    uint32_t from = get32(&hold->from), delivered = from & ~(RETAINED | DISPLACED);
    if (op == MOVE_DROP && delivered) return;
    put32(&hold->from, (from & RETAINED) | (queue + 1) | (op == MOVE_DROP ? DISPLACED : 0));
}

/* Send a block this member holds; the caller has seen that there is room. */
int move_in(struct dshm *h, uint32_t queue, int64_t key, int64_t now) {
    struct queue *q = h->queues + queue;
    struct end *e = &q->put;
    uint32_t b = (uint32_t)key & KEY_MASK;
    uint64_t at = get64(&e->count);
    own_lock(h);
    struct hold *hold = h->mine + b;
    if (!get32(&hold->count) || h->blocks[b].gen != (uint64_t)key >> KEY_BITS) {
        own_unlock(h);
        return DSHM_E_BADREF;
    }
    begin(h, e, MOVE_PUT, queue, b, at);
    stop_here(h, DSHM_STOP_PUT_INTENT);
    struct slot *slot = slot_at(h, q, at);
    put64(&slot->key, (uint64_t)key);
    put64(&slot->time, (uint64_t)now);
    STEP();
    stop_here(h, DSHM_STOP_PUT_SLOT);
    set64(&e->count, at + 1); /* release: slot and content are there for who sees it */
    STEP();
    stop_here(h, DSHM_STOP_PUT_TAIL);
    uint32_t left = get32(&hold->count) - 1;
    put32(&hold->count, left);
    if (!left) put32(&hold->from, 0);
    STEP();
    stop_here(h, DSHM_STOP_PUT_HOLD);
    end(e);
    own_unlock(h);
    stop_here(h, DSHM_STOP_PUT_DONE);
    return DSHM_OK;
}

/* Room in the list of displaced messages; this member is locked. */
int displaced_room(struct dshm *h) {
    if (h->n_displaced < h->room_displaced) return 1;
    uint32_t more = h->room_displaced ? h->room_displaced * 2 : 16;
    struct displaced *bigger = realloc(h->displaced, more * sizeof *bigger);
    if (!bigger) return 0;
    h->displaced = bigger;
    h->room_displaced = more;
    return 1;
}

/* Take the oldest message, to deliver it or because it gives way; the caller has seen that there is one. */
int64_t move_out(struct dshm *h, uint32_t queue, enum move_op op) {
    struct queue *q = h->queues + queue;
    struct end *e = &q->get;
    uint64_t at = get64(&e->count);
    int64_t key = (int64_t)get64(&slot_at(h, q, at)->key);
    uint32_t b = (uint32_t)key & KEY_MASK;
    /* Its descriptor is read and written soon, and was written last on another CPU; so was that of the next one. */
    __builtin_prefetch(h->blocks + b, 1);
    if (at + 1 != e->seen) __builtin_prefetch(h->blocks + (get64(&slot_at(h, q, at + 1)->key) & KEY_MASK), 1);
    own_lock(h);
    if (op == MOVE_DROP && !displaced_room(h)) {
        own_unlock(h);
        return DSHM_E_SYSTEM;
    }
    begin(h, e, op, queue, b, at);
    stop_here(h, DSHM_STOP_GET_INTENT);
    set64(&e->count, at + 1); /* release: the slot was read before a producer may write it */
    STEP();
    stop_here(h, op == MOVE_DROP ? DSHM_STOP_DROP_HEAD : DSHM_STOP_GET_HEAD);
    struct hold *hold = h->mine + b;
    set_from(hold, queue, op);
    put32(&hold->count, get32(&hold->count) + 1);
    if (op == MOVE_DROP) {
        put64(&e->dropped, get64(&e->dropped) + 1);
        h->displaced[h->n_displaced++] = (struct displaced){queue, key};
    }
    STEP();
    stop_here(h, op == MOVE_DROP ? DSHM_STOP_DROP_COUNTED : DSHM_STOP_GET_HOLD);
    end(e);
    own_unlock(h);
    if (op == MOVE_GET) stop_here(h, DSHM_STOP_GET_DONE);
    return key;
}

/* The end is locked, and whoever had locked it before is dead. */
void move_finish(struct dshm *h, struct queue *q, struct end *e) {
    struct move *mv = &e->move;
    uint32_t op = get32(&mv->op);
    (void)q;
    if (op != MOVE_NONE) {
        struct hold *hold = hold_of(h, mv->member, mv->block);
        int moved = get64(&e->count) != mv->position;
        uint32_t count = mv->before + (!moved ? 0 : op == MOVE_PUT ? -1u : 1u);
        if (moved && op != MOVE_PUT) set_from(hold, mv->queue, (enum move_op)op);
        if (!count) put32(&hold->from, 0);
        put32(&hold->count, count);
        if (op == MOVE_DROP) put64(&e->dropped, mv->dropped + (uint64_t)moved);
    }
    STEP();
    put32(&mv->op, MOVE_NONE);
}
