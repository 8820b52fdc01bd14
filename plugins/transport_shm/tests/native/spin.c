/* How long a wait looks again before it sleeps, by a clock that only this program moves: each look costs 100 ns. */
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

#include "dshm.h"

#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);     \
            abort();                                                       \
        }                                                                  \
    } while (0)

enum { TICK = 100, SPIN_US = 5, MOST = 200 };

static long long ns = 1000000000, began, looked[MOST];
static int cpu, sleeps;
static long long send_at; /* the message of a wait that is answered while it looks */
static struct dshm *h;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_sched_getcpu(void);
long __wrap_syscall(long number, ...);

static void send(void) {
    send_at = 0;
    cpu = 1; /* the other end runs elsewhere */
    int64_t key = dshm_alloc(h, 64, 0);
    CHECK(key >= 0 && dshm_put(h, 0, key, 0) == DSHM_OK);
    cpu = 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t) {
    (void)clock;
    ns += TICK;
    if (send_at && ns >= send_at) send();
    t->tv_sec = ns / 1000000000;
    t->tv_nsec = ns % 1000000000;
    return 0;
}

int __wrap_sched_getcpu(void) { return cpu; }

/* Falling asleep ends at the limit. */
long __wrap_syscall(long number, ...) {
    va_list args;
    va_start(args, number);
    (void)va_arg(args, void *);
    int op = va_arg(args, int);
    va_end(args);
    if (number != SYS_futex || op != FUTEX_WAIT) return 0;
    looked[sleeps++ % MOST] = ns - began;
    ns += 1000000000;
    return 0;
}

/* Nobody sends: it looks, and sleeps once. */
static long long wait_in_vain(void) {
    int before = sleeps;
    began = ns;
    CHECK(dshm_get(h, 0, 1000000) == DSHM_E_TIMEOUT);
    return sleeps == before ? -1 : looked[before % MOST];
}

static int is_about(long long found, long long expected) { return found >= expected && found <= expected + 30 * TICK; }

int main(void) {
    CHECK(dshm_create(16 << 20, 64, 4, 4, SPIN_US, 1, &h) == DSHM_OK);
    CHECK(dshm_queue_create(h, "q", 8, DSHM_BLOCK, 0, 0) >= 0);
    CHECK(wait_in_vain() < 1000 * SPIN_US); /* nobody was ever seen on another CPU */
    send();
    CHECK(dshm_release(h, dshm_get(h, 0, 0)) == DSHM_OK);
    for (int round = 0; round < 2; round++)
        for (int wait = 0; wait < 32; wait++) /* each 32nd look in vain is six times as long */
            CHECK(is_about(wait_in_vain(), 1000 * SPIN_US * (wait == 31 ? 6 : 1)));
    for (int wait = 0; wait < 20; wait++) CHECK(is_about(wait_in_vain(), 1000 * SPIN_US));
    int before = sleeps;
    send_at = ns + 3000; /* found while it looks: the count begins anew */
    CHECK(dshm_release(h, dshm_get(h, 0, 1000000)) == DSHM_OK && sleeps == before);
    for (int wait = 0; wait < 31; wait++) CHECK(is_about(wait_in_vain(), 1000 * SPIN_US));
    CHECK(is_about(wait_in_vain(), 6 * 1000 * SPIN_US));
    cpu = 1; /* both on one CPU: there is nothing to look for */
    CHECK(wait_in_vain() < 1000 * SPIN_US);
    dshm_close(h);
    dshm_free(h);
    puts("fine");
    return 0;
}
