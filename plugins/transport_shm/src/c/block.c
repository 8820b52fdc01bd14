/* Blocks: allocate, hold, give back. */
#include "layout.h"

#define HEAD_SIZE 256u /* of a message: dflow_core.message */

static void block_free(struct dshm *h, uint32_t b, struct wakes *w) {
    struct header *hd = h->hd;
    struct block *blk = h->blocks + b;
    stop_here(h, DSHM_STOP_FREE);
    buddy_give(h, (uint32_t)(blk->off >> h->gran_shift), blk->order);
    blk->used = 0;
    blk->next = hd->block_free;
    hd->block_free = b;
    hd->n_used--;
    hd->in_use -= granules(h, blk->size) << h->gran_shift;
    if (__builtin_expect(hd->mem_waiters != 0, 0)) mask_collect(h, mem_waiters_of(h), &hd->mem_waiters, 1, w);
}

void block_unref(struct dshm *h, uint32_t b, struct wakes *w) {
    if (--h->blocks[b].refs == 0) block_free(h, b, w);
}

/* Under the lock: a block held by this member, or NIL. */
static uint32_t take(struct dshm *h, uint64_t size, uint32_t order, uint64_t *missing) {
    struct header *hd = h->hd;
    uint32_t b = hd->block_free;
    if (b == NIL) return NIL;
    struct block *blk = h->blocks + b;
    uint32_t page = buddy_take(h, order, granules(h, size) << h->gran_shift, missing);
    if (page == NIL) return NIL;
    uint64_t off = (uint64_t)page << h->gran_shift;
    hd->block_free = blk->next;
    stop_here(h, DSHM_STOP_ALLOC_TAKEN);
    if (blk->off != off || blk->size != size) {
        blk->gen++;
        STEP();
        blk->off = off;
        blk->size = size;
    }
    blk->order = order;
    blk->used = 1;
    STEP();
    h->mine[b] = (struct hold){1, 0};
    STEP();
    stop_here(h, DSHM_STOP_ALLOC_HELD);
    blk->refs = 1;
    hd->n_used++;
    hd->in_use += granules(h, size) << h->gran_shift;
    return b;
}

static int64_t settle(struct dshm *h, uint32_t b, uint64_t size, uint64_t missing) {
    uint64_t at = h->blocks[b].off >> h->gran_shift;
    int rc = backed_fill(h, at, granules(h, size), missing);
    if (!rc) {
        /* A block that is lost before anything was written must not pass for the message that lay here before. */
        if (size >= HEAD_SIZE) memset(h->data + h->blocks[b].off, 0, HEAD_SIZE);
        return key_of(h, b);
    }
    struct wakes w = {0, {0}};
    if (dshm_lock(h)) return DSHM_E_BROKEN;
    h->mine[b] = (struct hold){0, 0};
    block_unref(h, b, &w);
    dshm_unlock(h);
    bells_wake(h, &w);
    return rc;
}

static int64_t alloc_wait(struct dshm *h, uint64_t size, uint32_t order, int64_t wait_ns) {
    int64_t until = wait_ns > 0 ? now_ns() + wait_ns : 0;
    for (;;) {
        uint64_t missing = 0;
        if (dshm_lock(h)) return DSHM_E_BROKEN;
        uint32_t b = take(h, size, order, &missing);
        if (b != NIL) {
            dshm_unlock(h);
            return settle(h, b, size, missing);
        }
        if (!until || now_ns() >= until || atomic_load(&h->closed)) {
            dshm_unlock(h);
            return DSHM_E_TIMEOUT;
        }
        int bell = bell_take(h, 0);
        if (bell >= 0) mask_set(mem_waiters_of(h), &h->hd->mem_waiters, (uint32_t)bell);
        dshm_unlock(h);
        if (bell < 0) return bell;
        bell_sleep(h, (uint32_t)bell, until);
        if (dshm_lock(h)) return DSHM_E_BROKEN;
        mask_clear(mem_waiters_of(h), &h->hd->mem_waiters, (uint32_t)bell);
        bell_drop(h, (uint32_t)bell);
        dshm_unlock(h);
    }
}

int64_t dshm_alloc(struct dshm *h, uint64_t size, int64_t wait_ns) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    uint64_t n = granules(h, size);
    int64_t key = DSHM_E_TOO_BIG;
    if (size <= h->hd->limit && n << h->gran_shift <= h->hd->limit)
        key = alloc_wait(h, size, n > 1 ? 64u - (uint32_t)__builtin_clzll(n - 1) : 0, wait_ns);
    if (key < 0) dshm_leave(h); /* otherwise the block keeps what enter counted */
    return key;
}

/* Under the lock: the block of a key, if this member holds it. */
static struct block *held(struct dshm *h, int64_t key) {
    uint32_t b = (uint32_t)key & KEY_MASK;
    if (key < 0 || b >= h->hd->max_blocks || !h->mine[b].count) return NULL;
    return h->blocks[b].gen == (uint64_t)key >> KEY_BITS ? h->blocks + b : NULL;
}

int dshm_block_info(struct dshm *h, int64_t key, uint64_t *address, uint64_t *size) {
    if (is_forked(h)) return DSHM_E_FORKED;
    if (dshm_lock(h)) return DSHM_E_BROKEN;
    struct block *blk = held(h, key);
    if (blk) {
        *address = (uint64_t)(uintptr_t)(h->data + blk->off);
        *size = blk->size;
    }
    dshm_unlock(h);
    return blk ? DSHM_OK : DSHM_E_BADREF;
}

int dshm_retain(struct dshm *h, int64_t key) {
    if (is_forked(h)) return DSHM_E_FORKED;
    if (dshm_lock(h)) return DSHM_E_BROKEN;
    struct block *blk = held(h, key);
    if (blk) {
        struct hold *hold = h->mine + ((uint32_t)key & KEY_MASK);
        hold->from |= RETAINED;
        hold->count++;
        STEP();
        blk->refs++;
        atomic_fetch_add(&h->refs, 1);
    }
    dshm_unlock(h);
    return blk ? DSHM_OK : DSHM_E_BADREF;
}

/* Works after close too: that is how the last blocks of a member go. */
int dshm_release(struct dshm *h, int64_t key) {
    if (is_forked(h)) return DSHM_E_FORKED;
    struct wakes w = {0, {0}};
    if (dshm_lock(h)) return DSHM_E_BROKEN;
    struct block *blk = held(h, key);
    if (blk) {
        struct hold *hold = h->mine + ((uint32_t)key & KEY_MASK);
        if (--hold->count == 0) hold->from = 0;
        STEP();
        block_unref(h, (uint32_t)key & KEY_MASK, &w);
    }
    dshm_unlock(h);
    if (!blk) return DSHM_E_BADREF;
    bells_wake(h, &w);
    dshm_leave(h);
    return DSHM_OK;
}

int64_t dshm_trim(struct dshm *h) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    int64_t sum = 0;
    rc = dshm_lock(h);
    if (!rc) {
        buddy_rebuild(h);
        dshm_unlock(h);
    }
    for (uint64_t got = 1; got && !rc;) { /* one chunk at a time: others may use the group in between */
        rc = dshm_lock(h);
        if (rc) break;
        got = buddy_shrink(h, 1);
        dshm_unlock(h);
        sum += (int64_t)got;
    }
    dshm_leave(h);
    return rc ? rc : sum;
}
