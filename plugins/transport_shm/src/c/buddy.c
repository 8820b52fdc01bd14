/* The data area: chunks of 2^order pages. The lists of each order are last in, first out, so that the chunk whose
 * pages were used last is used next. Warm chunks have pages of the machine behind them, cold ones have none. Chunks
 * are joined only by `buddy_rebuild`, which computes all lists from the blocks in use. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "layout.h"

enum { COLOURS = 16 };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void push(struct dshm *h, uint32_t *heads, uint32_t chunk, uint32_t order) {
    h->chunks[chunk].next = heads[order];
    heads[order] = chunk;
}

static uint32_t pop(struct dshm *h, uint32_t *heads, uint32_t order) {
    uint32_t chunk = heads[order];
    if (chunk != NIL) heads[order] = h->chunks[chunk].next;
    return chunk;
}

/* Pop the smallest chunk of at least `order` from one kind of lists, and give back what is too much. */
static uint32_t pop_split(struct dshm *h, uint32_t *heads, uint32_t order) {
    for (uint32_t k = order; k <= h->hd->max_order; k++) {
        uint32_t chunk = pop(h, heads, k);
        if (chunk == NIL) continue;
        while (k > order) {
            k--;
            push(h, heads, chunk + (1u << k), k);
        }
        return chunk;
    }
    return NIL;
}

static int bit(struct dshm *h, uint64_t g) { return (int)(get64(h->backed + g / 64) >> (g % 64) & 1); }

/* The bits of word `w` that belong to pages `from` to `to`. */
static uint64_t word_mask(uint64_t w, uint64_t from, uint64_t to) {
    uint64_t mask = ~0ull;
    if (w == from / 64) mask &= ~0ull << (from % 64);
    if (w == (to - 1) / 64 && to % 64) mask &= ~0ull >> (64 - to % 64);
    return mask;
}

static uint64_t count_bits(_Atomic uint64_t *words, uint64_t from, uint64_t n) {
    uint64_t sum = 0;
    if (!n) return 0;
    for (uint64_t w = from / 64; w <= (from + n - 1) / 64; w++)
        sum += (uint64_t)__builtin_popcountll(get64(words + w) & word_mask(w, from, from + n));
    return sum;
}

static void put_bits(_Atomic uint64_t *words, uint64_t from, uint64_t n, int on) {
    if (!n) return;
    for (uint64_t w = from / 64; w <= (from + n - 1) / 64; w++) {
        uint64_t mask = word_mask(w, from, from + n);
        if (on) atomic_fetch_or_explicit(words + w, mask, memory_order_relaxed);
        else atomic_fetch_and_explicit(words + w, ~mask, memory_order_relaxed);
    }
}

uint64_t backed_count(struct dshm *h, uint64_t from, uint64_t n) { return count_bits(h->backed, from, n); }

/* Make the pages of part of the region exist, and map them here to be written. */
int populate_range(struct dshm *h, uint64_t from, uint64_t bytes) {
    uint64_t page = 1ull << h->gran_shift, start = from & ~(page - 1), end = (from + bytes + page - 1) & ~(page - 1);
    int rc;
    do rc = madvise(h->base + start, end - start, MADV_POPULATE_WRITE);
    while (rc && (errno == EINTR || errno == EAGAIN));
    if (rc && errno == EINVAL) { /* kernels before 5.14 */
        atomic_store(&h->needs_fd, 1);
        rc = fallocate(h->fd, 0, (off_t)start, (off_t)(end - start));
    }
    if (rc) dshm_errno = errno;
    return rc ? DSHM_E_SYSTEM : DSHM_OK;
}

int pages_seen(struct dshm *h, uint64_t from, uint64_t n) {
    return n == 1 ? (int)(get64(h->seen + from / 64) >> (from % 64) & 1) : count_bits(h->seen, from, n) == n;
}

/* Make pages exist and be mapped here; the caller holds the block and not the lock, `missing` were reserved. */
int backed_fill(struct dshm *h, uint64_t from, uint64_t n, uint64_t missing) {
    if (!missing && pages_seen(h, from, n)) return DSHM_OK;
    int rc = populate_range(h, h->hd->data_at + (from << h->gran_shift), n << h->gran_shift);
    if (!rc) put_bits(h->seen, from, n, 1);
    if (!missing) return DSHM_OK; /* not mapped ahead: pages will come one by one */
    int locked = dshm_lock(h);
    if (locked) return locked;
    if (rc) {
        uint64_t had = count_bits(h->backed, from, n);
        madvise(h->data + (from << h->gran_shift), (size_t)n << h->gran_shift, MADV_REMOVE);
        put_bits(h->backed, from, n, 0);
        h->hd->backed -= (had + missing) << h->gran_shift;
    } else {
        put_bits(h->backed, from, n, 1);
    }
    dshm_unlock(h);
    return rc;
}

/* Give the pages from `from` to `to` back, as far as any is backed. */
static void punch(struct dshm *h, uint64_t from, uint64_t to) {
    if (to > h->hd->high) to = h->hd->high;
    uint64_t had = from < to ? backed_count(h, from, to - from) : 0;
    if (!had) return;
    madvise(h->data + (from << h->gran_shift), (size_t)(to - from) << h->gran_shift, MADV_REMOVE);
    put_bits(h->backed, from, to - from, 0);
    h->hd->backed -= had << h->gran_shift;
}

/* Chunks in use may have pages that the block in them does not need: earlier, larger blocks left them. */
static void shrink_used(struct dshm *h, uint64_t before, uint64_t want) {
    for (uint32_t b = 0; b < get32(&h->hd->blocks_high) && before - h->hd->backed < want; b++) {
        struct block *blk = h->blocks + b;
        if (word_kind(look64(&blk->word)) == KIND_FREE) continue;
        uint64_t page = blk->off >> h->gran_shift, start = page >> blk->order << blk->order;
        punch(h, start, page);
        punch(h, page + get32(&blk->pages), start + (1ull << blk->order));
    }
}

/* Give pages nobody uses back to the machine until `want` bytes are: free chunks first, the largest first. */
uint64_t buddy_shrink(struct dshm *h, uint64_t want) {
    uint64_t before = h->hd->backed;
    for (uint32_t k = h->hd->max_order + 1; k-- > 0;)
        while (before - h->hd->backed < want) {
            uint32_t chunk = pop(h, h->hd->warm, k);
            if (chunk == NIL) break;
            punch(h, chunk, chunk + (1ull << k));
            push(h, h->hd->cold, chunk, k);
        }
    shrink_used(h, before, want);
    return before - h->hd->backed;
}

void buddy_give(struct dshm *h, uint32_t page, uint32_t order) {
    push(h, h->hd->warm, page >> order << order, order);
    h->hd->frees++;
}

static int by_offset_down(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int any_backed(struct dshm *h, uint64_t from, uint64_t n) {
    uint64_t high = h->hd->high;
    if (from >= high) return 0;
    return backed_count(h, from, from + n < high ? n : high - from) != 0;
}

/* Free chunks, as large as can be, for the pages `from` to `to`. */
static void fill_gap(struct dshm *h, uint64_t from, uint64_t to) {
    while (from < to) {
        uint32_t k = 63u - (uint32_t)__builtin_clzll(to - from);
        if (from && (uint32_t)__builtin_ctzll(from) < k) k = (uint32_t)__builtin_ctzll(from);
        if (k > h->hd->max_order) k = h->hd->max_order;
        push(h, any_backed(h, from, 1ull << k) ? h->hd->warm : h->hd->cold, (uint32_t)from, k);
        from += 1ull << k;
    }
}

void buddy_rebuild(struct dshm *h) {
    struct header *hd = h->hd;
    size_t n = 0;
    uint64_t end = hd->data_size >> h->gran_shift;
    uint64_t *used = malloc((hd->n_used + 1) * sizeof *used);
    if (!used) return;
    for (uint32_t b = 0; b < hd->max_blocks && n < hd->n_used; b++)
        if (word_kind(look64(&h->blocks[b].word)) != KIND_FREE) {
            uint32_t order = h->blocks[b].order;
            used[n++] = h->blocks[b].off >> h->gran_shift >> order << order << 8 | order;
        }
    qsort(used, n, sizeof *used, by_offset_down);
    for (uint32_t k = 0; k < ORDERS; k++) hd->warm[k] = hd->cold[k] = NIL;
    for (size_t i = 0; i < n; i++) {
        uint64_t start = used[i] >> 8, after = start + (1ull << (used[i] & 255));
        fill_gap(h, after, end);
        end = start;
    }
    fill_gap(h, 0, end);
    hd->frees = 0;
    free(used);
}

/* A chunk from whatever list has one. While much warm memory lies idle, other sizes are cut or joined from it. */
static uint32_t take_any(struct dshm *h, uint32_t order, uint64_t want) {
    struct header *hd = h->hd;
    uint32_t chunk = pop(h, hd->warm, order);
    if (chunk != NIL) return chunk;
    if (hd->backed + want > hd->limit || hd->backed - hd->in_use > hd->in_use + WARM_SLACK) {
        if (hd->frees > 16) buddy_rebuild(h);
        chunk = pop_split(h, hd->warm, order);
        if (chunk != NIL) return chunk;
    }
    chunk = pop_split(h, hd->cold, order);
    if (chunk == NIL) chunk = pop_split(h, hd->warm, order);
    if (chunk == NIL && hd->frees) {
        buddy_rebuild(h);
        chunk = pop_split(h, hd->warm, order);
        if (chunk == NIL) chunk = pop_split(h, hd->cold, order);
    }
    return chunk;
}

/* Descriptors of chunks get their pages before they are written, for a fault on them could not be reported. */
static int grow_tables(struct dshm *h, uint64_t end) {
    uint64_t *high = &h->hd->meta_high;
    if (end <= *high) return DSHM_OK;
    uint64_t page = 1ull << h->gran_shift, from = (uint64_t)(uintptr_t)(h->chunks + *high) & ~(page - 1);
    uint64_t to = ((uint64_t)(uintptr_t)(h->chunks + end) + page - 1) & ~(page - 1);
    int rc = madvise((void *)(uintptr_t)from, to - from, MADV_POPULATE_WRITE);
    if (rc && errno != EINVAL) return DSHM_E_SYSTEM;
    *high = (to - (uint64_t)(uintptr_t)h->chunks) / sizeof(struct chunk);
    return DSHM_OK;
}

/* Where in a chunk a block begins. Were it always the start, the first bytes of all large blocks would fall into the
 * same sets of the caches and of the TLB, and a message of megabytes would cost more than one of bytes. */
static uint32_t colour(uint32_t chunk, uint32_t order, uint64_t pages) {
    uint64_t spare = (1ull << order) - pages;
    return (chunk >> order) % (uint32_t)(spare < COLOURS ? spare + 1 : COLOURS);
}

uint32_t buddy_take(struct dshm *h, uint32_t order, uint64_t want, uint64_t *missing) {
    struct header *hd = h->hd;
    uint64_t n = want >> h->gran_shift;
    if (hd->in_use + want > hd->limit) return NIL;
    uint32_t chunk = take_any(h, order, want);
    if (chunk == NIL) return NIL;
    uint32_t page = chunk + colour(chunk, order, n);
    *missing = n == 1 ? !bit(h, page) : n - backed_count(h, page, n);
    if (*missing) {
        uint64_t bytes = *missing << h->gran_shift;
        if (hd->backed + bytes > hd->limit) buddy_shrink(h, hd->backed + bytes - hd->limit);
        if (hd->backed + bytes > hd->limit || grow_tables(h, chunk + (1ull << order))) {
            push(h, hd->warm, chunk, order);
            return NIL;
        }
        hd->backed += bytes;
    }
    if (chunk + (1ull << order) > hd->high) hd->high = chunk + (1ull << order);
    return page;
}
