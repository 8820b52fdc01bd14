/* Counters, read without stopping anybody: what is in motion meanwhile may be counted here or there, but at an idle
 * moment all is exact, and for a queue sent = delivered + dropped + failed + level holds at any. */
#include "layout.h"

static uint64_t bytes_of(struct dshm *h, uint32_t b) {
    return b < h->hd->max_blocks ? (uint64_t)get32(&h->blocks[b].pages) << h->gran_shift : 0;
}

int dshm_totals(struct dshm *h, struct dshm_totals *out) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    struct header *hd = h->hd;
    *out = (struct dshm_totals){0, 0, atomic_load(&hd->backed), hd->limit, atomic_load(&hd->repairs), hd->max_members,
                                atomic_load(&hd->n_queues)};
    uint32_t high = get32(&hd->blocks_high);
    for (uint32_t b = 0; b < high; b++)
        if (word_kind(look64(&h->blocks[b].word)) == KIND_LIVE) {
            out->blocks_in_use++;
            out->bytes_in_use += bytes_of(h, b);
        }
    dshm_leave(h);
    return DSHM_OK;
}

int dshm_member_use(struct dshm *h, uint32_t m, struct dshm_use *out) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    memset(out, 0, sizeof *out);
    if (m >= h->hd->max_members || get32(&h->members[m].state) == MEMBER_FREE) rc = DSHM_E_MISSING;
    else {
        uint32_t high = get32(&h->hd->blocks_high);
        out->pid = h->members[m].pid;
        memcpy(out->label, h->members[m].label, sizeof out->label);
        for (uint32_t b = 0; b < high; b++)
            if (get32(&hold_of(h, m, b)->count)) {
                out->blocks++;
                out->bytes += bytes_of(h, b);
            }
    }
    dshm_leave(h);
    return rc;
}

static void fill(struct dshm *h, struct queue *q, struct dshm_queue_info *out) {
    /* Heads before tails, and losses before what they are taken from, so that no difference is below zero. */
    uint64_t failed = get64(&q->failed), old = look64(&q->get.dropped), newest = look64(&q->put.dropped);
    uint64_t head = look64(&q->get.count), tail = look64(&q->put.count), level = tail - head;
    if (level > q->depth) { /* the head moved on between the two looks */
        level = q->depth;
        head = tail - level;
    }
    uint64_t gone = head - q->start, lost = old + failed;
    *out = (struct dshm_queue_info){.depth = q->depth, .overflow = q->overflow, .level = (uint32_t)level,
                                    .closed = atomic_load(&q->closed), .sent = tail - q->start + newest,
                                    .delivered = gone > lost ? gone - lost : 0, .dropped = old + newest,
                                    .failed = failed, .blocked_ns = get64(&q->put.waited_ns),
                                    .waiting_ns = get64(&q->get.waited_ns)};
    memcpy(out->name, q->name, sizeof out->name);
    for (uint64_t at = head; at != tail; at++)
        out->bytes += bytes_of(h, (uint32_t)get64(&slot_at(h, q, at)->key) & KEY_MASK);
    if (level) {
        int64_t age = now_coarse() - (int64_t)get64(&slot_at(h, q, head)->time);
        out->oldest_age_ns = age > 0 ? (uint64_t)age : 0;
    }
}

int dshm_queue_info(struct dshm *h, uint32_t queue, struct dshm_queue_info *out) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    if (queue >= get32(&h->hd->n_queues)) rc = DSHM_E_MISSING;
    else fill(h, h->queues + queue, out);
    dshm_leave(h);
    return rc;
}
