/* What the operating system does for the code under test, one step at a time: locks, futexes, the clock, processes. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "explore_inside.h"

enum { LOCKS = 64, ARENA = 1 << 20 };

struct lock {
    uintptr_t at;
    int owner, unsure; /* unsure: whoever had it crashed, and nobody has said yet that all is well */
};

static struct lock locks[LOCKS];
static int n_locks;
static int64_t clock_ns;
static size_t arena_used;

static struct lock *lock_at(uintptr_t at) {
    for (int i = 0; i < n_locks; i++)
        if (locks[i].at == at) return locks + i;
    if (n_locks == LOCKS) abort();
    locks[n_locks] = (struct lock){at, NOBODY, 0};
    return locks + n_locks++;
}

int lock_is_free(uintptr_t at) {
    struct lock *lock = lock_at(at);
    return lock->owner == NOBODY || has_crashed(lock->owner);
}

void forget_run(void) {
    n_locks = 0;
    arena_used = 0;
    clock_ns = 1000000000;
}

/* ---- locks: robust ones ---- */

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_consistent(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
    uintptr_t at = offset_of(mutex);
    point(SYNC, mutex);
    while (!lock_is_free(at)) {
        EXPECT(!outside());
        block(WAITS_LOCK, at);
    }
    struct lock *lock = lock_at(at);
    if (lock->owner != NOBODY) lock->unsure = 1;
    lock->owner = who();
    return lock->unsure ? EOWNERDEAD : 0;
}

/* Trying again and again and then sleeping is, step by step, the same as sleeping. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex) { return __wrap_pthread_mutex_lock(mutex); }

int __wrap_pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *until) {
    (void)until;
    return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until) {
    (void)clock, (void)until;
    return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    struct lock *lock = lock_at(offset_of(mutex));
    point(SYNC, mutex);
    EXPECT(lock->owner == who() && !lock->unsure);
    lock->owner = NOBODY;
    return 0;
}

int __wrap_pthread_mutex_consistent(pthread_mutex_t *mutex) {
    struct lock *lock = lock_at(offset_of(mutex));
    point(SYNC, mutex);
    EXPECT(lock->owner == who() && lock->unsure);
    lock->unsure = 0;
    return 0;
}

/* ---- futexes ---- */

long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...) {
    va_list args;
    va_start(args, number);
    uint32_t *word = va_arg(args, uint32_t *);
    int op = va_arg(args, int);
    uint32_t value = va_arg(args, uint32_t);
    va_end(args);
    if (number == SYS_gettid) return party_pid(who());
    if (number != SYS_futex) abort();
    point(SYNC, NULL);
    op &= ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    if (op == FUTEX_WAKE) return wake_at(offset_of(word), (int)value);
    EXPECT((op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET) && !outside());
    if (*word != value) {
        errno = EAGAIN;
        return -1;
    }
    block(WAITS_FUTEX, offset_of(word));
    return 0;
}

/* ---- clock and processes ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_sched_yield(void);
int __wrap_sched_getcpu(void);
int __wrap_getpid(void);
int __wrap_gettid(void);
int __wrap_kill(int pid, int signal);

int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    clock_ns += 100;
    *t = (struct timespec){clock_ns / 1000000000, clock_ns % 1000000000};
    return 0;
}

int __wrap_sched_yield(void) { return 0; }
int __wrap_sched_getcpu(void) { return 0; }
int __wrap_getpid(void) { return (int)party_pid(who()); }
int __wrap_gettid(void) { return (int)party_pid(who()); }

int __wrap_kill(int pid, int signal) {
    EXPECT(signal == 0);
    if (!has_crashed(pid - PID_BASE)) return 0;
    errno = ESRCH;
    return -1;
}

/* ---- memory: what is mapped or made during set-up is watched ---- */

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__real_calloc(size_t n, size_t size);
void *__real_memset(void *to, int value, size_t size);
void *__real_memcpy(void *to, const void *from, size_t size);
int __real_madvise(void *at, size_t size, int advice);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *at, size_t size);
void __wrap_free(void *at);
void __real_free(void *at);
void *__wrap_memset(void *to, int value, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
int __wrap_madvise(void *at, size_t size, int advice);

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    void *got = __real_mmap(at, size, protection, flags, fd, offset);
    if (got != MAP_FAILED && flags & MAP_SHARED && is_setup()) add_range(got, size, 1);
    return got;
}

/* What a schedule allocates it does not keep: what its memory held is taken back too. */
static _Alignas(16) unsigned char arena[ARENA];

static void *from_arena(size_t size) {
    size_t whole = (size + 31) & ~(size_t)15;
    EXPECT(whole >= size && arena_used + whole <= ARENA);
    unsigned char *got = arena + arena_used;
    arena_used += whole;
    __real_memcpy(got, &size, sizeof size);
    return got + 16;
}

static int in_arena(const void *at) {
    return (uintptr_t)at >= (uintptr_t)arena && (uintptr_t)at < (uintptr_t)arena + ARENA;
}

void *__wrap_malloc(size_t size) { return is_setup() ? __wrap_calloc(1, size) : from_arena(size); }

void *__wrap_calloc(size_t n, size_t size) {
    if (!is_setup()) return __real_memset(from_arena(n * size), 0, n * size);
    void *got = __real_calloc(1, n * size + 16);
    if (!got) return NULL;
    size_t whole = n * size;
    __real_memcpy(got, &whole, sizeof whole);
    add_range(got, whole + 16, 0);
    return (unsigned char *)got + 16;
}

void *__wrap_realloc(void *at, size_t size) {
    void *got = __wrap_malloc(size);
    size_t had = 0;
    if (at) __real_memcpy(&had, (unsigned char *)at - 16, sizeof had);
    if (at && got) __real_memcpy(got, at, had < size ? had : size);
    __wrap_free(at);
    return got;
}

void __wrap_free(void *at) {
    if (at && !in_arena(at) && is_setup()) {
        forget_range((unsigned char *)at - 16);
        __real_free((unsigned char *)at - 16);
    }
}

void __tsan_write_range(void *at, size_t size);

void *__wrap_memset(void *to, int value, size_t size) {
    if (size) __tsan_write_range(to, size);
    return __real_memset(to, value, size);
}

void *__wrap_memcpy(void *to, const void *from, size_t size) {
    if (size) __tsan_write_range(to, size);
    return __real_memcpy(to, from, size);
}

/* Memory is there in this world; taking it away would be a write that nobody logs. */
int __wrap_madvise(void *at, size_t size, int advice) {
    (void)at, (void)size, (void)advice;
    return 0;
}
