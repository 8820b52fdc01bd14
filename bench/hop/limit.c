/* What two or more processes can reach with nothing but a ring between them: the limit that a transport is held to.
 *
 *   limit hop SIZE DEPTH SECS         messages a second, written and read in place
 *   limit copy SIZE DEPTH SECS        the same, each message copied in from an ordinary array
 *   limit memcpy SIZE SLOTS SECS      copies a second into that many slots in turn, in one process
 *   limit pipeline SIZE DEPTH SECS    messages a second through four processes, passed on
 *   limit rtt SIZE SPIN_US COUNT      p50 and p99 of a round trip, in microseconds
 *   limit lone SIZE DEPTH COUNT       p50 and p99 of a lone message through four processes, one each 5 ms
 *   limit line 16 1 COUNT             nanoseconds that a cache line takes from one CPU to the other
 *
 * A ring has one producer and one consumer, a counter for each, and a flag for each that says "I sleep", which only the
 * waker's exchange clears. Before it sleeps an end spins for 5 us, if the other was last seen on another CPU. */
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, EDGES = 4, LAST = 255, MOST = 100000 };

struct end {
    _Alignas(LINE) _Atomic uint64_t count;
    _Atomic int32_t cpu;
    _Alignas(LINE) _Atomic uint32_t sleeps;
    _Alignas(LINE) uint64_t other; /* what the other end's counter was last */
};

struct ring {
    struct end in, out;
};

static struct ring *rings;
static uint8_t *slots;
static size_t size, pitch;
static uint64_t depth;
static int64_t spin_ns = 5000;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void wait_change(struct end *me, struct end *other, uint64_t seen) {
    int cpu = sched_getcpu();
    if (spin_ns && atomic_load_explicit(&other->cpu, memory_order_relaxed) != cpu)
        for (int64_t until = now() + spin_ns; now() < until;)
            for (int i = 0; i < 16; i++) {
                if (atomic_load_explicit(&other->count, memory_order_acquire) != seen) return;
                __asm__ __volatile__("" ::: "memory");
            }
    while (atomic_load_explicit(&other->count, memory_order_acquire) == seen) {
        atomic_store(&me->sleeps, 1);
        if (atomic_load(&other->count) != seen) break;
        syscall(SYS_futex, &me->sleeps, FUTEX_WAIT, 1, NULL, NULL, 0);
    }
    atomic_store_explicit(&me->sleeps, 0, memory_order_relaxed);
}

static void step(struct end *me, struct end *other) {
    int cpu = sched_getcpu();
    if (atomic_load_explicit(&me->cpu, memory_order_relaxed) != cpu) atomic_store_explicit(&me->cpu, cpu, memory_order_relaxed);
    atomic_store_explicit(&me->count, atomic_load_explicit(&me->count, memory_order_relaxed) + 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&other->sleeps, memory_order_relaxed) && atomic_exchange(&other->sleeps, 0))
        syscall(SYS_futex, &other->sleeps, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* The producer's next place; a place is free again when the last consumer of the chain is done with it. */
static uint64_t place(int edge, int last) {
    struct end *me = &rings[edge].in, *other = &rings[last].out;
    uint64_t at = atomic_load_explicit(&me->count, memory_order_relaxed);
    while (at - me->other >= depth) {
        me->other = atomic_load_explicit(&other->count, memory_order_acquire);
        if (at - me->other >= depth) wait_change(me, other, me->other);
    }
    return at % depth;
}

static uint64_t next(int edge) {
    struct end *me = &rings[edge].out, *other = &rings[edge].in;
    uint64_t at = atomic_load_explicit(&me->count, memory_order_relaxed);
    while (at == me->other) {
        me->other = atomic_load_explicit(&other->count, memory_order_acquire);
        if (at == me->other) wait_change(me, other, at);
    }
    return at % depth;
}

static void send(int edge, int last, uint8_t mark, int64_t stamp, const uint8_t *own) {
    uint8_t *to = slots + place(edge, last) * pitch;
    if (own) memcpy(to, own, size);
    memcpy(to, &stamp, sizeof stamp);
    to[size - 1] = mark;
    step(&rings[edge].in, &rings[edge].out);
}

static uint8_t receive(int edge, int last, int64_t *stamp) {
    uint8_t *from = slots + next(edge) * pitch, mark = from[size - 1];
    memcpy(stamp, from, sizeof *stamp);
    /* The source waits at its own ring's end for room, whoever frees the place: last of the chain or not. */
    step(&rings[edge].out, edge == last ? &rings[0].in : &rings[edge].in);
    return mark;
}

static pid_t spawn(void (*work)(int), int arg) {
    pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    work(arg);
    _exit(0);
}

static void pass_on(int edge) {
    for (int64_t stamp;;) {
        uint8_t *from = slots + next(edge) * pitch, mark = from[size - 1];
        memcpy(&stamp, from, sizeof stamp);
        step(&rings[edge + 1].in, &rings[edge + 1].out);
        step(&rings[edge].out, &rings[edge].in);
        if (mark == LAST) return;
    }
}

static double secs;
static const uint8_t *own_array;

static void flat_out(int last) {
    for (int64_t end = now() + (int64_t)(secs * 1e9); now() < end;)
        for (int i = 0; i < 64; i++) send(0, last, 1, 0, own_array);
    send(0, last, LAST, 0, own_array);
}

static void one_each_5_ms(int last) {
    struct timespec pause = {0, 5000000};
    for (int i = 0; i < (int)secs; i++) {
        nanosleep(&pause, NULL);
        send(0, last, 1, now(), NULL);
    }
    send(0, last, LAST, 0, NULL);
}

static double rate(int last) {
    int64_t start = 0, stamp;
    uint64_t count = 0;
    while (receive(last, last, &stamp) != LAST)
        if (++count == 1000 || (count < 1000 && size > 1000000 && count == 16)) start = now(), count = 1000;
    return (double)(count - 1000) * 1e9 / (double)(now() - start);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_quantiles(int64_t *times, int n) {
    qsort(times, (size_t)n, sizeof *times, by_value);
    printf("%.3f %.3f\n", (double)times[n / 2] / 1e3, (double)times[n * 99 / 100] / 1e3);
}

static void latency(int last) {
    static int64_t times[MOST];
    int n = 0;
    for (int64_t stamp; receive(last, last, &stamp) != LAST;) times[n++] = now() - stamp;
    print_quantiles(times, n);
}

static void round_trips(int count) {
    static int64_t times[MOST];
    for (int i = 0; i < count; i++) {
        int64_t start = now(), stamp;
        send(0, 1, i == count - 1 ? LAST : 1, start, NULL);
        receive(1, 1, &stamp);
        times[i] = now() - start;
    }
    print_quantiles(times, count);
}

/* Two processes take turns at adding to one word. */
static void take_turns(int odd) {
    for (uint64_t i = (uint64_t)odd; i < 2 * (uint64_t)secs; i += 2) {
        while (atomic_load_explicit(&rings[0].in.count, memory_order_acquire) != i)
            ;
        atomic_store_explicit(&rings[0].in.count, i + 1, memory_order_release);
    }
}

static void bounce(void) {
    int64_t start = now();
    spawn(take_turns, 1);
    take_turns(0);
    printf("%.1f\n", (double)(now() - start) / (2 * secs));
}

static double copies(void) {
    uint64_t count = 0;
    int64_t start = now(), end = start + (int64_t)(secs * 1e9);
    for (; now() < end; count++) memcpy(slots + count % depth * pitch, own_array, size);
    return (double)count * 1e9 / (double)(now() - start);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    const char *what = argv[1];
    size = strtoull(argv[2], NULL, 10);
    depth = strtoull(argv[3], NULL, 10);
    secs = strtod(argv[4], NULL);
    int rtt = !strcmp(what, "rtt"), lone = !strcmp(what, "lone"), last = rtt ? 1 : lone || !strcmp(what, "pipeline") ? 2 : 0;
    if (rtt) spin_ns = (int64_t)depth * 1000, depth = 8;
    if (size < 16 || (rtt && secs > MOST) || (lone && secs >= MOST)) return 2;
    pitch = (size + 4095) / 4096 * 4096;
    uint8_t *own = malloc(size);
    rings = mmap(NULL, sizeof *rings * EDGES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    slots = mmap(NULL, pitch * depth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (!own || rings == MAP_FAILED || slots == MAP_FAILED) return 1;
    memset(own, 1, size);
    if (!strcmp(what, "copy") || !strcmp(what, "memcpy")) own_array = own;
    if (!strcmp(what, "memcpy")) {
        printf("%.1f\n", copies());
        return 0;
    }
    for (int edge = 0; edge < last; edge++) spawn(pass_on, edge);
    if (!strcmp(what, "line")) bounce();
    else if (rtt) round_trips((int)secs);
    else {
        spawn(lone ? one_each_5_ms : flat_out, last);
        if (lone) latency(last);
        else printf("%.1f\n", rate(last));
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
