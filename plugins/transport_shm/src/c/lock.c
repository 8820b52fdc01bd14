/* Locks that survive their holders: one for what is rare in a group, one for each end of each queue. */
#include <errno.h>
#include <time.h>

#include "layout.h"

enum { SPINS = 200, GROUP_PATIENCE = 10 };

int lock_init(pthread_mutex_t *lock) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    errno = pthread_mutex_init(lock, &a);
    pthread_mutexattr_destroy(&a);
    if (!errno) return DSHM_OK;
    dshm_errno = errno;
    return DSHM_E_SYSTEM;
}

/* 0, EOWNERDEAD, ETIMEDOUT, or what else went wrong; EBUSY at once where `until` is 0. */
static int lock_until(pthread_mutex_t *lock, int64_t until) {
    int rc = EBUSY;
    for (int i = 0; i < SPINS && rc == EBUSY; i++) {
        rc = pthread_mutex_trylock(lock);
        if (rc == EBUSY) cpu_relax();
    }
    if (rc != EBUSY || !until) return rc;
/* ThreadSanitizer does not know of the first one in the versions we meet. */
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 30) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_THREAD__)
    struct timespec t = {until / 1000000000, until % 1000000000};
    return pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &t);
#else
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t end = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec + until - now_ns();
    t = (struct timespec){end / 1000000000, end % 1000000000};
    return pthread_mutex_timedlock(lock, &t);
#endif
}

/* Compute again what can be: free descriptors, free chunks, free bells. All of it follows from the words of blocks. */
static void repair(struct dshm *h) {
    descriptors_rebuild(h);
    buddy_rebuild(h);
    atomic_store(&h->hd->backed, backed_count(h, 0, h->hd->high) << h->gran_shift);
    bells_rebuild(h);
    atomic_fetch_add(&h->hd->repairs, 1);
}

int dshm_lock(struct dshm *h) {
    pthread_mutex_t *lock = &h->hd->lock;
    int rc = pthread_mutex_trylock(lock);
    if (rc == EBUSY) rc = lock_until(lock, now_ns() + GROUP_PATIENCE * 1000000000ll);
    if (__builtin_expect(rc == 0, 1)) return DSHM_OK;
    if (rc == ETIMEDOUT) return DSHM_E_STUCK;
    if (rc != EOWNERDEAD) return DSHM_E_BROKEN;
    repair(h);
    pthread_mutex_consistent(lock);
    bells_wake_all(h);
    return DSHM_OK;
}

void dshm_unlock(struct dshm *h) { pthread_mutex_unlock(&h->hd->lock); }

/* Lock one end of a queue, and finish what a dead process had begun there; BUSY where `until` is 0, else TIMEOUT. */
int end_lock(struct dshm *h, struct queue *q, struct end *e, int64_t until) {
    int rc = lock_until(&e->lock, until);
    if (__builtin_expect(rc == 0, 1)) return DSHM_OK;
    if (rc == EBUSY) return DSHM_E_BUSY;
    if (rc == ETIMEDOUT) return DSHM_E_TIMEOUT;
    if (rc != EOWNERDEAD) return DSHM_E_BROKEN;
    move_finish(h, q, e);
    pthread_mutex_consistent(&e->lock);
    atomic_fetch_add(&h->hd->repairs, 1);
    /* The dead may have sent or taken something and told nobody. */
    uint32_t queue = (uint32_t)(q - h->queues);
    mask_wake(h, readers_of(h, queue), &q->readers, 1);
    mask_wake(h, writers_of(h, queue), &q->writers, 1);
    return DSHM_OK;
}
