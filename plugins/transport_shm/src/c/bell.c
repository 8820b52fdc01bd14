/* Doorbells: how threads wait. The futex word is the flag that says "I sleep"; wakers clear it only by exchange, so
 * that a late waker can wake early but never swallow a later wait.
 *
 * Who waits enters its bell into the mask of a queue and then looks at the queue once more; who sends or takes does so
 * first and then looks at the mask. Between the two steps of each lies a full barrier, so one of them sees the other. */
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layout.h"

enum { SPIN_PROBE = 32, SPIN_LONG = 6 }; /* each so many misses, so many times as long */

static int64_t read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t now_ns(void) { return read_clock(CLOCK_MONOTONIC); }

/* Some milliseconds old at worst, and far cheaper: good enough to say how long a message has lain. */
int64_t now_coarse(void) { return read_clock(CLOCK_MONOTONIC_COARSE); }

/* The group is locked. */
static int take(struct dshm *h, int keen) {
    uint32_t b = h->hd->bell_free;
    if (b == NIL) return DSHM_E_TABLE;
    struct bell *bell = h->bells + b;
    put32(&bell->owner, h->member + 1);
    put32(&bell->keen, (uint32_t)keen);
    STEP();
    h->hd->bell_free = bell->next;
    atomic_store(&bell->rung, 0);
    atomic_store(&bell->flag, 0);
    return (int)b;
}

/* The group is locked. */
void bell_drop(struct dshm *h, uint32_t b) {
    struct bell *bell = h->bells + b;
    atomic_store(&bell->flag, 0);
    put32(&bell->owner, 0);
    STEP();
    bell->next = h->hd->bell_free;
    h->hd->bell_free = b;
}

void bells_rebuild(struct dshm *h) {
    h->hd->bell_free = NIL;
    for (uint32_t b = h->hd->n_bells; b-- > 0;)
        if (!get32(&h->bells[b].owner)) {
            h->bells[b].next = h->hd->bell_free;
            h->hd->bell_free = b;
        }
}

static int take_locked(struct dshm *h, int keen) {
    int rc = dshm_lock(h);
    if (rc) return rc;
    rc = take(h, keen);
    dshm_unlock(h);
    return rc;
}

/* A bell for one wait of the calling thread. The member keeps those it has had, so the group is locked only while it
 * has more threads waiting than ever before. */
int bell_borrow(struct dshm *h) {
    own_lock(h);
    int bell = h->n_spare ? (int)h->spare[--h->n_spare] : -1;
    own_unlock(h);
    return bell >= 0 ? bell : take_locked(h, 0);
}

void bell_return(struct dshm *h, uint32_t bell) {
    atomic_store_explicit(&h->bells[bell].flag, 0, memory_order_relaxed);
    own_lock(h);
    if (h->n_spare == h->room_spare) {
        uint32_t more = h->room_spare ? h->room_spare * 2 : 8;
        uint32_t *bigger = realloc(h->spare, more * sizeof *bigger);
        if (bigger) {
            h->spare = bigger;
            h->room_spare = more;
        }
    }
    int kept = h->n_spare < h->room_spare;
    if (kept) h->spare[h->n_spare++] = bell;
    own_unlock(h);
    if (!kept && !dshm_lock(h)) {
        bell_drop(h, bell);
        dshm_unlock(h);
    }
}

/* How long to look again before a sleep. Both ends of a stream can fall into step such that each sleeps while the other
 * wakes, which takes longer than either looks; now and then a longer look ends that. */
int64_t spin_limit(struct dshm *h) {
    uint32_t misses = atomic_load_explicit(&h->misses, memory_order_relaxed);
    return now_ns() + (int64_t)h->hd->spin_ns * (misses % SPIN_PROBE == SPIN_PROBE - 1 ? SPIN_LONG : 1);
}

void spin_told(struct dshm *h, int found) {
    uint32_t misses = atomic_load_explicit(&h->misses, memory_order_relaxed);
    if (found ? misses : 1) atomic_store_explicit(&h->misses, found ? 0 : misses + 1, memory_order_relaxed);
}

void bell_sleep(struct dshm *h, uint32_t b, int64_t until) {
    _Atomic uint32_t *flag = &h->bells[b].flag;
    while (atomic_load(flag)) {
        int64_t left = until - now_ns();
        if (left <= 0 || atomic_load(&h->closed)) return;
        struct timespec t = {left / 1000000000, left % 1000000000};
        syscall(SYS_futex, flag, FUTEX_WAIT, 1, &t, NULL, 0);
    }
}

static void wake(struct dshm *h, uint32_t b) {
    _Atomic uint32_t *flag = &h->bells[b].flag;
    if (atomic_exchange(flag, 0)) syscall(SYS_futex, flag, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void bells_wake(struct dshm *h, const struct wakes *w) {
    for (uint32_t i = 0; i < w->n; i++) wake(h, w->bell[i]);
}

/* After a death: those too whose flag the dead had cleared already without having woken them. */
void bells_wake_all(struct dshm *h) {
    for (uint32_t b = 0; b < h->hd->n_bells; b++) {
        if (!get32(&h->bells[b].owner)) continue;
        atomic_store(&h->bells[b].flag, 0);
        syscall(SYS_futex, &h->bells[b].flag, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

void mask_set(struct dshm *h, _Atomic uint64_t *mask, _Atomic uint64_t *sum, uint32_t bell) {
    (void)h;
    atomic_fetch_or(mask + bell / 64, 1ull << (bell % 64));
    atomic_fetch_or(sum, 1ull << (bell / 64));
    atomic_thread_fence(memory_order_seq_cst); /* before the caller looks once more */
}

/* The sum is cleared before the last look at its word: who enters a bell meanwhile sets it again, or is seen here. Who
 * sent or took something in between saw nobody waiting, so those who do look for themselves. */
static void sum_clear(struct dshm *h, _Atomic uint64_t *mask, _Atomic uint64_t *sum, uint32_t word) {
    if (atomic_load(mask + word)) return;
    atomic_fetch_and(sum, ~(1ull << word));
    uint64_t late = atomic_load(mask + word);
    if (!late) return;
    atomic_fetch_or(sum, 1ull << word);
    for (; late; late &= late - 1) wake(h, word * 64 + (uint32_t)__builtin_ctzll(late));
}

void mask_clear(struct dshm *h, _Atomic uint64_t *mask, _Atomic uint64_t *sum, uint32_t bell) {
    uint64_t bit = 1ull << (bell % 64);
    if (!(get64(mask + bell / 64) & bit)) return;
    atomic_fetch_and(mask + bell / 64, ~bit);
    sum_clear(h, mask, sum, bell / 64);
}

/* Wake all that wait, or the keen ones and one other, which takes the message or passes it by. */
void mask_wake(struct dshm *h, _Atomic uint64_t *mask, _Atomic uint64_t *sum, int all) {
    int one = 0;
    for (uint64_t words = atomic_load(sum); words; words &= words - 1) {
        uint32_t word = (uint32_t)__builtin_ctzll(words);
        for (uint64_t bits = atomic_load(mask + word); bits; bits &= bits - 1) {
            uint64_t bit = bits & -bits;
            uint32_t bell = word * 64 + (uint32_t)__builtin_ctzll(bits);
            if (!all && one && !get32(&h->bells[bell].keen)) continue;
            if (!(atomic_fetch_and(mask + word, ~bit) & bit)) continue; /* somebody else wakes it */
            one |= !get32(&h->bells[bell].keen);
            wake(h, bell);
        }
        sum_clear(h, mask, sum, word);
    }
}

int dshm_bell_take(struct dshm *h) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = take_locked(h, 1);
    dshm_leave(h);
    return rc;
}

int dshm_bell_drop(struct dshm *h, uint32_t bell) {
    int rc = dshm_enter(h);
    if (rc) return rc; /* leaving the group drops the bells of a member */
    rc = dshm_lock(h);
    if (!rc) {
        bell_drop(h, bell);
        dshm_unlock(h);
    }
    dshm_leave(h);
    return rc;
}

int dshm_bell_ring(struct dshm *h, uint32_t bell) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    atomic_store(&h->bells[bell].rung, 1);
    wake(h, bell);
    dshm_leave(h);
    return rc;
}
