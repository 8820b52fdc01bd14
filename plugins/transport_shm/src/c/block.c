/* Blocks: allocate, hold, give back. Mostly a block comes from the member's own magazine and goes back to its maker's;
 * only where that does not do, the group is locked and the buddy allocator asked. */
#include "layout.h"

/* The part of a message's head that says which message it is: transaction, part, time, kind. */
enum { HEAD_SIZE = DFLOW_HEAD_SIZE, IDENTITY_AT = 192, IDENTITY_SIZE = 64 };

/* A block that is lost before anything was written must not pass for the message that lay here before. */
static void wipe(struct dshm *h, const struct block *blk) {
    if (blk->size >= HEAD_SIZE) memset(h->data + blk->off + IDENTITY_AT, 0, IDENTITY_SIZE);
}

/* The group is locked: the chunk of a block that is free now goes back to the buddy. */
static void give(struct dshm *h, uint32_t b) {
    struct header *hd = h->hd;
    struct block *blk = h->blocks + b;
    stop_here(h, DSHM_STOP_FREE);
    buddy_give(h, (uint32_t)(blk->off >> h->gran_shift), blk->order);
    blk->next = hd->block_free;
    hd->block_free = b;
    hd->n_used--;
    hd->in_use -= (uint64_t)get32(&blk->pages) << h->gran_shift;
}

/* The group is locked: free the cached blocks of one home, or of all (NIL); returns their bytes. */
uint64_t gather(struct dshm *h, uint32_t home) {
    uint64_t sum = 0;
    uint32_t high = get32(&h->hd->blocks_high);
    own_lock(h);
    for (uint32_t b = 0; b < high; b++) {
        uint64_t w = atomic_load(&h->blocks[b].word); /* seq_cst: see who waits for memory, in `alloc_wait` */
        if (word_kind(w) != KIND_CACHED || (home != NIL && get32(&h->blocks[b].home) != home)) continue;
        if (!ref_free(h, b, w)) continue; /* its home was quicker */
        sum += (uint64_t)get32(&h->blocks[b].pages) << h->gran_shift;
        give(h, b);
    }
    own_unlock(h);
    return sum;
}

static void give_surplus(struct dshm *h) {
    if (dshm_lock(h)) return;
    own_lock(h);
    while (h->n_surplus) {
        uint32_t b = h->surplus[--h->n_surplus];
        uint64_t w = look64(&h->blocks[b].word);
        if (word_kind(w) == KIND_CACHED && ref_free(h, b, w)) give(h, b);
    }
    own_unlock(h);
    dshm_unlock(h);
}

/* After a death in the lock: which descriptors are free, and what the others take. */
void descriptors_rebuild(struct dshm *h) {
    struct header *hd = h->hd;
    hd->block_free = NIL;
    hd->n_used = hd->in_use = 0;
    for (uint32_t b = hd->max_blocks; b-- > 0;) {
        struct block *blk = h->blocks + b;
        if (word_kind(look64(&blk->word)) != KIND_FREE) {
            hd->n_used++;
            hd->in_use += (uint64_t)get32(&blk->pages) << h->gran_shift;
        } else {
            blk->next = hd->block_free;
            hd->block_free = b;
        }
    }
}

/* The group is locked: a block with fresh memory, held by this member, or NIL. */
static uint32_t grow(struct dshm *h, uint64_t size, uint32_t order, uint64_t *missing) {
    struct header *hd = h->hd;
    uint32_t b = hd->block_free, pages = (uint32_t)granules(h, size);
    if (b == NIL) return NIL;
    struct block *blk = h->blocks + b;
    uint32_t page = buddy_take(h, order, (uint64_t)pages << h->gran_shift, missing);
    if (page == NIL) return NIL;
    hd->block_free = blk->next;
    stop_here(h, DSHM_STOP_ALLOC_TAKEN);
    blk->gen++;
    STEP();
    __atomic_store_n(&blk->off, (uint64_t)page << h->gran_shift, __ATOMIC_RELAXED); /* magazine_add may look */
    blk->size = size;
    blk->order = order;
    put32(&blk->pages, pages);
    put32(&blk->home, h->member);
    if (b >= get32(&hd->blocks_high)) put32(&hd->blocks_high, b + 1);
    own_lock(h);
    STEP();
    ref_cache(h, b);
    STEP();
    stop_here(h, DSHM_STOP_ALLOC_GROWN);
    hd->n_used++;
    hd->in_use += (uint64_t)pages << h->gran_shift;
    ref_take(h, b, pages); /* cannot fail: others would have to lock the group, and our own threads this member */
    own_unlock(h);
    stop_here(h, DSHM_STOP_ALLOC_HELD);
    return b;
}

/* A block from the magazine gets its size. */
static int64_t dress(struct dshm *h, uint32_t b, uint64_t size) {
    struct block *blk = h->blocks + b;
    stop_here(h, DSHM_STOP_ALLOC_CACHED);
    if (blk->size != size) {
        blk->gen++;
        STEP();
        blk->size = size;
    }
    wipe(h, blk);
    return key_of(h, b);
}

/* The pages of a fresh block are made to exist; if that fails, the block goes. */
static int64_t settle(struct dshm *h, uint32_t b, uint64_t missing) {
    struct block *blk = h->blocks + b;
    int rc = backed_fill(h, blk->off >> h->gran_shift, get32(&blk->pages), missing);
    if (!rc) {
        wipe(h, blk);
        return key_of(h, b);
    }
    int locked = dshm_lock(h);
    own_lock(h);
    ref_change(h, h->member, b, -1);
    uint64_t w = look64(&blk->word);
    /* Not into any magazine: it has no pages. */
    if (!locked && word_kind(w) == KIND_CACHED && ref_free(h, b, w)) give(h, b);
    own_unlock(h);
    if (!locked) dshm_unlock(h);
    memory_freed(h);
    return rc;
}

static int64_t alloc_once(struct dshm *h, uint64_t size, uint64_t pages, uint32_t order, int at_all) {
    own_lock(h);
    uint32_t b = magazine_take(h, pages);
    int surplus = h->n_surplus != 0;
    own_unlock(h);
    if (surplus && at_all) give_surplus(h);
    if (b != NIL) return dress(h, b, size);
    if (!at_all) return DSHM_E_BUSY;
    uint64_t missing = 0;
    int rc = dshm_lock(h);
    if (rc) return rc;
    b = grow(h, size, order, &missing);
    if (b == NIL && gather(h, NIL)) b = grow(h, size, order, &missing);
    dshm_unlock(h);
    return b == NIL ? DSHM_E_TIMEOUT : settle(h, b, missing);
}

/* Whoever waits says so first, then looks once more, then sleeps; whoever frees looks afterwards whether one waits. */
static int64_t alloc_wait(struct dshm *h, uint64_t size, uint64_t pages, uint32_t order, int64_t wait_ns) {
    int64_t until = wait_ns > 0 ? now_ns() + wait_ns : 0, key;
    int bell = -1, enrolled = 0;
    _Atomic uint64_t *sum = &h->hd->mem_waiters;
    for (;;) {
        key = alloc_once(h, size, pages, order, wait_ns != DSHM_NOT_AT_ALL);
        if (key != DSHM_E_TIMEOUT || !until || now_ns() >= until || atomic_load(&h->closed)) break;
        if (bell < 0 && (bell = bell_borrow(h)) < 0) return bell;
        if (!enrolled) {
            atomic_store(&h->bells[bell].flag, 1);
            mask_set(h, mem_waiters_of(h), sum, (uint32_t)bell);
            enrolled = 1;
            continue;
        }
        stop_here(h, DSHM_STOP_WAIT_ENROLLED);
        bell_sleep(h, (uint32_t)bell, until);
        mask_clear(h, mem_waiters_of(h), sum, (uint32_t)bell);
        enrolled = 0;
    }
    if (enrolled) mask_clear(h, mem_waiters_of(h), sum, (uint32_t)bell);
    if (bell >= 0) bell_return(h, (uint32_t)bell);
    return key;
}

int64_t dshm_alloc(struct dshm *h, uint64_t size, int64_t wait_ns) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    uint64_t n = granules(h, size);
    int64_t key = DSHM_E_TOO_BIG;
    if (size <= h->hd->limit && n << h->gran_shift <= h->hd->limit && n < NIL)
        key = alloc_wait(h, size, n, n > 1 ? 64u - (uint32_t)__builtin_clzll(n - 1) : 0, wait_ns);
    if (key < 0) dshm_leave(h); /* otherwise the block keeps what enter counted */
    return key;
}

/* The block of a key, if this member holds it. */
static struct block *held(struct dshm *h, int64_t key) {
    uint32_t b = (uint32_t)key & KEY_MASK;
    if (key < 0 || b >= h->hd->max_blocks || !get32(&h->mine[b].count)) return NULL;
    return h->blocks[b].gen == (uint64_t)key >> KEY_BITS ? h->blocks + b : NULL;
}

int dshm_block_info(struct dshm *h, int64_t key, uint64_t *address, uint64_t *size) {
    if (is_forked(h)) return DSHM_E_FORKED;
    struct block *blk = held(h, key); /* no lock: who holds it, as he says, keeps it as it is */
    if (!blk) return DSHM_E_BADREF;
    *address = (uint64_t)(uintptr_t)(h->data + blk->off);
    *size = blk->size;
    return DSHM_OK;
}

int dshm_retain(struct dshm *h, int64_t key) {
    if (is_forked(h)) return DSHM_E_FORKED;
    int rc = DSHM_E_BADREF;
    own_lock(h);
    struct block *blk = held(h, key);
    if (blk && word_count(look64(&blk->word)) >= COUNT_MOST - MEMBERS_MOST) rc = DSHM_E_TABLE;
    else if (blk) {
        struct hold *hold = h->mine + ((uint32_t)key & KEY_MASK);
        put32(&hold->from, get32(&hold->from) | RETAINED);
        ref_change(h, h->member, (uint32_t)key & KEY_MASK, 1);
        atomic_fetch_add(&h->refs, 1);
        rc = DSHM_OK;
    }
    own_unlock(h);
    return rc;
}

/* Wake those who wait for memory; no lock is held. */
void memory_freed(struct dshm *h) {
    if (__builtin_expect(atomic_load(&h->hd->mem_waiters) != 0, 0))
        mask_wake(h, mem_waiters_of(h), &h->hd->mem_waiters, 1);
}

/* Works after close too: that is how the last blocks of a member go. */
int dshm_release(struct dshm *h, int64_t key) {
    if (is_forked(h)) return DSHM_E_FORKED;
    own_lock(h);
    struct block *blk = held(h, key);
    uint32_t kind = blk ? ref_change(h, h->member, (uint32_t)key & KEY_MASK, -1) : KIND_FREE;
    own_unlock(h);
    if (!blk) return DSHM_E_BADREF;
    if (kind == KIND_CACHED) memory_freed(h);
    dshm_leave(h);
    return DSHM_OK;
}

int64_t dshm_trim(struct dshm *h) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    int64_t sum = 0;
    rc = dshm_lock(h);
    if (!rc) {
        gather(h, NIL);
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
