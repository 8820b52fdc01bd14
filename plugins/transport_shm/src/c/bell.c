/* Doorbells: how threads wait. The futex word is the flag that says "I sleep"; wakers clear it only by exchange, so
 * that a late waker can wake early but never swallow a later wait. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layout.h"

/* Nanoseconds, but for the window, which is a number of yields. */
enum { YIELD_RAN = 1500, YIELD_TOO_LONG = 100000, YIELD_WINDOW = 64, YIELD_PAUSE_LEAST = 50000000 };
static const int64_t YIELD_PAUSE_MOST = 5000000000;

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Under the lock. The flag is raised here, before the caller is entered in any mask. */
int bell_take(struct dshm *h, int keen) {
    uint32_t b = h->hd->bell_free;
    if (b == NIL) return DSHM_E_TABLE;
    struct bell *bell = h->bells + b;
    bell->owner = h->member + 1;
    bell->keen = (uint32_t)keen;
    h->hd->bell_free = bell->next;
    atomic_store(&bell->rung, 0);
    atomic_store(&bell->flag, 1);
    return (int)b;
}

void bell_drop(struct dshm *h, uint32_t b) {
    struct bell *bell = h->bells + b;
    bell->owner = 0;
    bell->next = h->hd->bell_free;
    h->hd->bell_free = b;
}

void bell_sleep(struct dshm *h, uint32_t b, int64_t until) {
    _Atomic uint32_t *flag = &h->bells[b].flag;
    while (atomic_load(flag)) {
        int64_t left = until - now_ns();
        if (left <= 0) return;
        struct timespec t = {left / 1000000000, left % 1000000000};
        syscall(SYS_futex, flag, FUTEX_WAIT, 1, &t, NULL, 0);
        if (atomic_load(&h->closed)) return;
    }
}

static void wake(struct dshm *h, uint32_t b) {
    _Atomic uint32_t *flag = &h->bells[b].flag;
    if (atomic_exchange(flag, 0)) syscall(SYS_futex, flag, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void bells_wake(struct dshm *h, const struct wakes *w) {
    for (uint32_t i = 0; i < w->n; i++) wake(h, w->bell[i]);
}

void bells_wake_all(struct dshm *h) {
    for (uint32_t b = 0; b < h->hd->n_bells; b++)
        if (atomic_load_explicit(&h->bells[b].flag, memory_order_relaxed)) wake(h, b);
}

/* Let others on this CPU run: mostly the other ends, which then fill (or empty) a queue instead of being woken, or
 * waking us, for every message. Beside a process that never sleeps a yield costs its whole time slice, so yielding ends
 * for a while when yields take long on average. Returns whether anybody ran. */
int bell_yield(struct dshm *h) {
    int64_t start = now_ns();
    if (start < atomic_load_explicit(&h->no_yield_until, memory_order_relaxed)) return 0;
    sched_yield();
    int64_t now = now_ns(), mean = atomic_load_explicit(&h->yield_mean, memory_order_relaxed);
    int64_t pause = atomic_load_explicit(&h->yield_pause, memory_order_relaxed);
    mean += (now - start - mean) / YIELD_WINDOW;
    if (mean > YIELD_TOO_LONG) {
        mean = YIELD_TOO_LONG / 2; /* on trial, once the pause is over */
        pause = pause * 2 < YIELD_PAUSE_MOST ? pause * 2 + YIELD_PAUSE_LEAST : YIELD_PAUSE_MOST;
        atomic_store_explicit(&h->no_yield_until, now + pause, memory_order_relaxed);
    } else if (pause) {
        pause -= pause / YIELD_WINDOW + 1;
    }
    atomic_store_explicit(&h->yield_mean, mean, memory_order_relaxed);
    atomic_store_explicit(&h->yield_pause, pause, memory_order_relaxed);
    return now - start > YIELD_RAN;
}

void mask_set(uint64_t *mask, uint64_t *sum, uint32_t bell) {
    mask[bell / 64] |= 1ull << (bell % 64);
    STEP();
    *sum |= 1ull << (bell / 64);
}

void mask_clear(uint64_t *mask, uint64_t *sum, uint32_t bell) {
    mask[bell / 64] &= ~(1ull << (bell % 64));
    STEP();
    if (!mask[bell / 64]) *sum &= ~(1ull << (bell / 64));
}

/* Move waiters into `w`: all of them, or the keen ones and one other, which takes the message or passes it by. */
void mask_collect(struct dshm *h, uint64_t *mask, uint64_t *sum, int all, struct wakes *w) {
    int one = 0;
    for (uint64_t words = *sum; words; words &= words - 1) {
        uint32_t word = (uint32_t)__builtin_ctzll(words);
        for (uint64_t bits = mask[word]; bits; bits &= bits - 1) {
            uint32_t bell = word * 64 + (uint32_t)__builtin_ctzll(bits);
            if (!all && !h->bells[bell].keen && one++) continue;
            mask_clear(mask, sum, bell);
            if (w->n < sizeof w->bell / sizeof *w->bell) w->bell[w->n++] = bell;
            else wake(h, bell);
        }
    }
}

static uint64_t sum_of(const uint64_t *mask, uint32_t words) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < words; i++)
        if (mask[i]) sum |= 1ull << i;
    return sum;
}

void masks_repair(struct dshm *h) {
    struct header *hd = h->hd;
    for (uint32_t q = 0; q < hd->n_queues; q++) {
        h->queues[q].readers = sum_of(readers_of(h, q), hd->mask_words);
        h->queues[q].writers = sum_of(writers_of(h, q), hd->mask_words);
    }
    hd->mem_waiters = sum_of(mem_waiters_of(h), hd->mask_words);
    hd->bell_free = NIL;
    for (uint32_t b = hd->n_bells; b-- > 0;)
        if (!h->bells[b].owner) {
            h->bells[b].next = hd->bell_free;
            hd->bell_free = b;
        }
}

int dshm_bell_take(struct dshm *h) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = dshm_lock(h);
    if (!rc) {
        rc = bell_take(h, 1);
        if (rc >= 0) atomic_store(&h->bells[rc].flag, 0);
        dshm_unlock(h);
    }
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

static int ready(struct dshm *h, const uint32_t *r, uint32_t nr, const uint32_t *w, uint32_t nw) {
    for (uint32_t i = 0; i < nr; i++) {
        struct queue *q = h->queues + r[i];
        if (get64(&q->tail) != get64(&q->head) || atomic_load(&q->closed)) return 1;
    }
    for (uint32_t i = 0; i < nw; i++) {
        struct queue *q = h->queues + w[i];
        int full = get64(&q->tail) - get64(&q->head) >= q->depth;
        if (!full || q->overflow != DSHM_BLOCK || atomic_load(&q->closed)) return 1;
    }
    return 0;
}

/* As `linger` of a queue, for all the other ends at once. */
static void linger(struct dshm *h, const struct bell *bell, const uint32_t *r, uint32_t nr, const uint32_t *w,
                   uint32_t nw) {
    for (int i = 0; i < YIELDS && bell_yield(h); i++)
        if (ready(h, r, nr, w, nw) || atomic_load(&bell->rung)) return;
    if (!h->hd->spin_ns) return;
    int here = sched_getcpu(), elsewhere = 0, cpu;
    int64_t until = now_ns() + (int64_t)h->hd->spin_ns;
    for (uint32_t i = 0; i < nr; i++)
        if ((cpu = atomic_load_explicit(&h->queues[r[i]].put_cpu, memory_order_relaxed)) >= 0) elsewhere |= cpu != here;
    for (uint32_t i = 0; i < nw; i++)
        if ((cpu = atomic_load_explicit(&h->queues[w[i]].get_cpu, memory_order_relaxed)) >= 0) elsewhere |= cpu != here;
    while (elsewhere && !ready(h, r, nr, w, nw) && !atomic_load(&bell->rung) && now_ns() < until)
        for (int i = 0; i < 16; i++) cpu_relax();
}

static void enroll(struct dshm *h, uint32_t bell, int on, const uint32_t *r, uint32_t nr, const uint32_t *w,
                   uint32_t nw) {
    void (*set)(uint64_t *, uint64_t *, uint32_t) = on ? mask_set : mask_clear;
    for (uint32_t i = 0; i < nr; i++) set(readers_of(h, r[i]), &h->queues[r[i]].readers, bell);
    for (uint32_t i = 0; i < nw; i++) set(writers_of(h, w[i]), &h->queues[w[i]].writers, bell);
}

static int bell_wait(struct dshm *h, uint32_t b, const uint32_t *r, uint32_t nr, const uint32_t *w, uint32_t nw,
                     int64_t wait_ns) {
    struct bell *bell = h->bells + b;
    if (atomic_exchange(&bell->rung, 0)) return 1;
    int found = ready(h, r, nr, w, nw);
    if (found || wait_ns <= 0) return found;
    linger(h, bell, r, nr, w, nw);
    if (dshm_lock(h)) return DSHM_E_BROKEN;
    if (ready(h, r, nr, w, nw)) {
        dshm_unlock(h);
        return 1;
    }
    atomic_store(&bell->flag, 1);
    enroll(h, b, 1, r, nr, w, nw);
    dshm_unlock(h);
    if (!atomic_load(&bell->rung)) bell_sleep(h, b, now_ns() + wait_ns);
    if (dshm_lock(h)) return DSHM_E_BROKEN;
    enroll(h, b, 0, r, nr, w, nw);
    found = ready(h, r, nr, w, nw);
    atomic_store(&bell->flag, 0);
    dshm_unlock(h);
    return atomic_exchange(&bell->rung, 0) || found;
}

int dshm_bell_wait(struct dshm *h, uint32_t bell, const uint32_t *readable, uint32_t n_readable,
                   const uint32_t *writable, uint32_t n_writable, int64_t wait_ns) {
    int rc = dshm_enter(h);
    if (rc) return rc;
    rc = bell_wait(h, bell, readable, n_readable, writable, n_writable, wait_ns);
    dshm_leave(h);
    return rc;
}
