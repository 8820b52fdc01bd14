/* The magazine of a member: blocks it made, that nobody holds, for its next messages of the same size.
 *
 * The most recently freed lies on top, since it is the one in the caches. What other members release comes back through
 * marks, one bit a block; the home takes all marks of a word at once, so no order of events can spoil them. Magazine and
 * marks are hints: the word of a block decides. Anybody who finds no memory takes cached blocks away (`gather`). */
#include <stdlib.h>

#include "layout.h"

/* Most blocks of one size; part of the group's memory one member keeps; pages of a block that is worth keeping warm. */
enum { SHELF_MOST = 1024, SHARE = 2, LARGE = 16 };

static int push(uint32_t **items, uint32_t *n, uint32_t *room, uint32_t item) {
    if (*n == *room) {
        uint32_t more = *room ? *room * 2 : 32;
        uint32_t *bigger = realloc(*items, more * sizeof **items);
        if (!bigger) return 0; /* the hint is lost; `gather` finds the block */
        *items = bigger;
        *room = more;
    }
    (*items)[(*n)++] = item;
    return 1;
}

static uint64_t bytes_of(struct dshm *h, uint64_t pages) { return pages << h->gran_shift; }

static void too_many(struct dshm *h, uint32_t b) { push(&h->surplus, &h->n_surplus, &h->room_surplus, b); }

static struct shelf *find(struct dshm *h, uint64_t pages) {
    for (uint32_t i = 0; i < SHELVES; i++)
        if (h->shelves[i].pages == pages) return h->shelves + i;
    return NULL;
}

/* The shelf for that size; the one that was used longest ago is cleared for it. */
static struct shelf *shelf_for(struct dshm *h, uint32_t pages) {
    struct shelf *s = find(h, pages), *oldest = h->shelves;
    if (s) return s;
    for (uint32_t i = 1; i < SHELVES; i++)
        if ((int32_t)(h->shelves[i].used - oldest->used) < 0) oldest = h->shelves + i;
    h->cached -= bytes_of(h, oldest->pages) * oldest->n;
    while (oldest->n) too_many(h, oldest->items[--oldest->n]);
    oldest->pages = pages;
    oldest->used = ++h->clock;
    return oldest;
}

void magazine_add(struct dshm *h, uint32_t b) {
    uint32_t pages = get32(&h->blocks[b].pages);
    uint64_t bytes = bytes_of(h, pages), off = __atomic_load_n(&h->blocks[b].off, __ATOMIC_RELAXED); /* a hint by now */
    if (h->cached + bytes > h->hd->limit / SHARE || !pages_seen(h, off >> h->gran_shift, pages)) {
        too_many(h, b);
        return;
    }
    struct shelf *s = shelf_for(h, pages);
    if (s->n >= SHELF_MOST) too_many(h, b);
    else if (push(&s->items, &s->n, &s->room, b)) h->cached += bytes;
}

/* A block nobody holds any more: let its home know. */
void magazine_mark(struct dshm *h, uint32_t b) {
    uint32_t home = get32(&h->blocks[b].home);
    if (home == h->member) {
        magazine_add(h, b);
        return;
    }
    _Atomic uint64_t *sums = marks_of(h, home), *bits = sums + mark_sums(h);
    uint32_t word = b / 64;
    /* First the bit, then the sum that leads to it: whoever takes the sum finds the bit, or a later sum comes. */
    atomic_fetch_or_explicit(bits + word, 1ull << (b % 64), memory_order_release);
    atomic_fetch_or_explicit(sums + word / 64, 1ull << (word % 64), memory_order_release);
}

static void take_word(struct dshm *h, _Atomic uint64_t *bits, uint32_t word) {
    uint64_t set = atomic_exchange_explicit(bits + word, 0, memory_order_acquire);
    for (; set; set &= set - 1) {
        uint32_t b = word * 64 + (uint32_t)__builtin_ctzll(set);
        if (word_kind(look64(&h->blocks[b].word)) == KIND_CACHED && get32(&h->blocks[b].home) == h->member)
            magazine_add(h, b);
    }
}

/* Take in what others gave back; whether there was anything. */
static int collect(struct dshm *h) {
    _Atomic uint64_t *sums = marks_of(h, h->member), *bits = sums + mark_sums(h);
    int any = 0;
    for (uint32_t i = 0; i < mark_sums(h); i++) {
        if (!get64(sums + i)) continue;
        uint64_t sum = atomic_exchange_explicit(sums + i, 0, memory_order_acquire);
        stop_here(h, DSHM_STOP_ALLOC_RETURNED);
        for (; sum; sum &= sum - 1) take_word(h, bits, i * 64 + (uint32_t)__builtin_ctzll(sum));
        any = 1;
    }
    return any;
}

static uint32_t take_from(struct dshm *h, struct shelf *s) {
    s->used = ++h->clock;
    while (s->n) {
        uint32_t b = s->items[--s->n];
        h->cached -= bytes_of(h, s->pages);
        if (s->n) __builtin_prefetch(h->blocks + s->items[s->n - 1], 1); /* for the next message */
        if (ref_take(h, b, s->pages)) return b;
    }
    return NIL;
}

/* The shelf of the smallest blocks that are up to a half larger: messages of many sizes then share their blocks, and
 * do not each keep some. */
static struct shelf *larger(struct dshm *h, uint64_t pages) {
    struct shelf *best = NULL;
    for (struct shelf *s = h->shelves; s < h->shelves + SHELVES; s++)
        if (s->n && s->pages > pages && s->pages <= pages + pages / 2 && (!best || s->pages < best->pages)) best = s;
    return best;
}

/* A block of at least that many pages, held now by this member; NIL if there is none. Returned blocks are taken in when
 * the magazine is empty, many at once; large ones sooner, since the one that came back last is the one in the caches. */
uint32_t magazine_take(struct dshm *h, uint64_t pages) {
    if (pages >= LARGE) collect(h);
    uint32_t b = NIL;
    do {
        struct shelf *s = find(h, pages);
        if (s) b = take_from(h, s);
    } while (b == NIL && collect(h));
    if (pages < LARGE) return b;
    for (struct shelf *s; b == NIL && (s = larger(h, pages));) b = take_from(h, s);
    return b;
}

void magazine_free(struct dshm *h) {
    for (uint32_t i = 0; i < SHELVES; i++) free(h->shelves[i].items);
    free(h->surplus);
    free(h->displaced);
    free(h->spare);
    memset(h->shelves, 0, sizeof h->shelves);
    h->surplus = h->spare = NULL;
    h->displaced = NULL;
    h->n_surplus = h->room_surplus = h->n_displaced = h->room_displaced = h->n_spare = h->room_spare = 0;
}
