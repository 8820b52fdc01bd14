/* References of blocks: one word each, changed by compare and swap, so that nobody ever waits for anybody.
 *
 * A process can die between a change of the word and the matching change of its hold. Before it begins it therefore
 * writes down what it is about to do (`struct intent`), with a number of its own that also goes into the word. Whoever
 * changes a word again first notes in `acked` of its last writer that his change has been seen. So for the intent of a
 * dead member it can always be told whether the change happened: the word still has its number, or it was noted. */
#include "layout.h"

static int newer(uint64_t a, uint64_t b) { return a != b && ((a - b) & SEQ_MASK) < 1ull << (SEQ_BITS - 1); }

static void acknowledge(struct dshm *h, uint64_t w) {
    uint32_t m = word_member(w);
    uint64_t seq = word_seq(w);
    if (m == h->member) return; /* our own earlier changes are whole: we are past them */
    _Atomic uint64_t *acked = &h->members[m].acked;
    uint64_t old = get64(acked);
    /* Only ever forward: a thread that slept since it read the word must not take back what was noted later. */
    while (newer(seq, old) &&
           !atomic_compare_exchange_weak_explicit(acked, &old, seq, memory_order_relaxed, memory_order_relaxed))
        ;
}

static uint64_t next_seq(struct dshm *h) { return h->me->seq = (h->me->seq + 1) & SEQ_MASK; }

static void begin(struct dshm *h, uint32_t whose, uint32_t b, int32_t delta, struct hold *hold) {
    struct intent *in = &h->me->intent;
    in->whose = whose;
    in->block = b;
    in->delta = delta;
    in->seq = next_seq(h);
    in->before = get32(&hold->count);
    in->from = get32(&hold->from);
    STEP();
    put32(&in->open, 1);
    STEP();
    stop_here(h, DSHM_STOP_REF_INTENT);
}

static void end(struct dshm *h) {
    STEP();
    put32(&h->me->intent.open, 0);
}

/* Success is seq_cst: who drops the last reference looks next whether anybody waits for memory, and who waits looks at
 * the words after saying so. It also releases what `acknowledge` noted. */
static int swap(struct block *blk, uint64_t *w, uint64_t to) {
    return atomic_compare_exchange_weak_explicit(&blk->word, w, to, memory_order_seq_cst, memory_order_acquire);
}

/* Change how many references `whose` (this member, or a dead one) has to a live block; returns what kind it is then. */
uint32_t ref_change(struct dshm *h, uint32_t whose, uint32_t b, int32_t delta) {
    struct block *blk = h->blocks + b;
    struct hold *hold = hold_of(h, whose, b);
    begin(h, whose, b, delta, hold);
    if (delta < 0) {
        uint32_t left = get32(&hold->count) + (uint32_t)delta;
        put32(&hold->count, left);
        if (!left) put32(&hold->from, 0);
        STEP();
        stop_here(h, DSHM_STOP_REF_HOLD);
    }
    uint64_t w = look64(&blk->word), to;
    do {
        uint32_t count = word_count(w) + (uint32_t)delta;
        to = word_of(count ? KIND_LIVE : KIND_CACHED, count, h->member, h->me->seq);
        acknowledge(h, w);
    } while (!swap(blk, &w, to));
    STEP();
    stop_here(h, DSHM_STOP_REF_WORD);
    if (delta > 0) put32(&hold->count, get32(&hold->count) + (uint32_t)delta);
    if (word_kind(to) == KIND_CACHED) {
        magazine_mark(h, b);
        STEP();
        stop_here(h, DSHM_STOP_REF_HOME);
    }
    end(h);
    return word_kind(to);
}

/* Make a cached block of that many pages a live one held by this member; 0 if it is none (any more). */
int ref_take(struct dshm *h, uint32_t b, uint64_t pages) {
    struct block *blk = h->blocks + b;
    uint64_t w = look64(&blk->word);
    if (word_kind(w) != KIND_CACHED || get32(&blk->pages) != pages) return 0;
    begin(h, h->member, b, 1, h->mine + b);
    uint64_t to = word_of(KIND_LIVE, 1, h->member, h->me->seq);
    do {
        if (word_kind(w) != KIND_CACHED || get32(&blk->pages) != pages) {
            end(h);
            return 0;
        }
        acknowledge(h, w);
    } while (!swap(blk, &w, to));
    STEP();
    stop_here(h, DSHM_STOP_REF_WORD);
    put32(&h->mine[b].from, 0);
    put32(&h->mine[b].count, 1);
    if (get32(&blk->home) != h->member) put32(&blk->home, h->member);
    end(h);
    return 1;
}

/* Take the memory of a cached block away; 0 if its word is not what was expected. The group is locked. */
int ref_free(struct dshm *h, uint32_t b, uint64_t expect) {
    acknowledge(h, expect);
    return atomic_compare_exchange_strong(&h->blocks[b].word, &expect, word_of(KIND_FREE, 0, h->member, next_seq(h)));
}

/* A free block has memory now. The group is locked, so nobody else looks at it. */
void ref_cache(struct dshm *h, uint32_t b) {
    acknowledge(h, get64(&h->blocks[b].word));
    set64(&h->blocks[b].word, word_of(KIND_CACHED, 0, h->member, next_seq(h)));
}

/* Make whole what a dead member had begun. */
void ref_finish(struct dshm *h, uint32_t m) {
    struct intent *in = &h->members[m].intent;
    if (!get32(&in->open)) return;
    struct hold *hold = hold_of(h, in->whose, in->block);
    uint64_t w = look64(&h->blocks[in->block].word); /* before `acked`, which is noted before the word changes */
    int applied = (word_member(w) == m && word_seq(w) == in->seq) || get64(&h->members[m].acked) == in->seq;
    uint32_t count = applied ? in->before + (uint32_t)in->delta : in->before;
    put32(&hold->count, count);
    put32(&hold->from, count ? in->from : 0);
    if (applied && word_kind(w) == KIND_CACHED) magazine_mark(h, in->block); /* perhaps a second time: no harm */
    STEP();
    put32(&in->open, 0);
}
