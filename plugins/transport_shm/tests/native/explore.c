/* Runs real code under every schedule, sequentially consistent, and with a crash at every step.
 *
 * The code under test is compiled with -fsanitize=thread but linked without that sanitizer's runtime: the compiler then
 * calls one of the functions below before each access to memory, and instead of each atomic one. The sources need no
 * change. Locks, futexes and the clock are replaced at link time (--wrap). Parties are coroutines of one thread.
 *
 * A party can be preempted before any atomic access to shared memory, any lock and any futex call, and can crash there
 * and before any plain write to shared memory. Plain accesses are not points of preemption: that they are ordered by
 * locks or atomics is what ThreadSanitizer proper checks (`stress.c`). Schedules are searched depth first, each from
 * the start; writes are logged and taken back in between. A state in which nobody can go on is a lost wake-up. */
#include <execinfo.h>
#include <ucontext.h>

#include "explore_inside.h"

enum { STACK = 128 << 10, STEPS = 60000, RANGES = 64, LOG = 1 << 18, FRAMES = 12, TURNS = 8 };

struct party {
    ucontext_t context;
    enum state state;
    uintptr_t waits_for; /* offset in the shared region */
    void *stack;
};

struct range {
    uintptr_t at, size;
    int shared;
};

struct undo {
    uintptr_t at;
    uint64_t old;
};

struct choice {
    uint8_t taken, options;
};

static const struct scenario *now_running;
static const struct bounds *limits;
static struct party parties[PARTIES];
static struct range ranges[RANGES];
static struct undo undo_log[LOG];
static struct choice path[STEPS];
static int n_ranges, current = NOBODY, identity = 0, n_crashed, preempted, recording;
static size_t n_undo;
static int depth, decided;
static ucontext_t home;
static struct turn {
    int party, n;
    void *frames[FRAMES];
} turns[TURNS]; /* where a party was preempted or crashed */
static int n_turns;

void explore_failed(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: %s\n  scenario %s, party %d, %d crashed, schedule:", file, line, what,
            now_running ? now_running->name : "-", current, n_crashed);
    for (int i = 0; i < depth; i++)
        if (path[i].taken) fprintf(stderr, " %d:%d", i, path[i].taken);
    fprintf(stderr, "\n");
    static const char *const states[] = {"can go on",        "waits for the lock", "sleeps on the futex",
                                         "awaits a crash",   "is done",            "is dead"};
    for (int p = 0; p < PARTIES; p++)
        fprintf(stderr, "  party %d %s (offset %lx)\n", p, states[parties[p].state], (long)parties[p].waits_for);
    for (int i = 0; i < n_turns; i++) {
        fprintf(stderr, "  party %d was preempted, or crashed, at\n", turns[i].party);
        backtrace_symbols_fd(turns[i].frames, turns[i].n, 2);
    }
    abort();
}

int crashes(void) { return n_crashed; }
uint32_t party_pid(int party) { return (uint32_t)(PID_BASE + party); }
void act_as(int party) { identity = party; }
int who(void) { return current == NOBODY ? identity : current; }

/* ---- memory ---- */

static const struct range *range_of(uintptr_t at) {
    for (int i = 0; i < n_ranges; i++)
        if (at - ranges[i].at < ranges[i].size) return ranges + i;
    return NULL;
}

void add_range(void *at, size_t size, int shared) {
    if (n_ranges == RANGES) abort();
    ranges[n_ranges++] = (struct range){(uintptr_t)at, size, shared};
}

void forget_range(const void *at) {
    for (int i = 0; i < n_ranges; i++)
        if (ranges[i].at == (uintptr_t)at) {
            ranges[i] = ranges[--n_ranges];
            return;
        }
}

uintptr_t offset_of(const volatile void *at) {
    const struct range *range = range_of((uintptr_t)at);
    return range && range->shared ? (uintptr_t)at - range->at : (uintptr_t)at;
}

void log_write(uintptr_t at, size_t size) {
    if (!recording) return;
    for (uintptr_t word = at & ~7ull; word < at + size; word += 8) {
        if (n_undo == LOG) explore_failed(__FILE__, __LINE__, "the log of writes is full");
        undo_log[n_undo++] = (struct undo){word, *(uint64_t *)word};
    }
}

static void take_back(void) {
    while (n_undo) {
        n_undo--;
        *(uint64_t *)undo_log[n_undo].at = undo_log[n_undo].old;
    }
}

/* ---- schedule ---- */

static int others_ended(int p) {
    for (int other = 0; other < PARTIES; other++)
        if (other != p && parties[other].state != DONE && parties[other].state != CRASHED) return 0;
    return 1;
}

static int can_go_on(int p) {
    struct party *party = parties + p;
    if (party->state == READY) return 1;
    if (party->state == WAITS_CRASH) return n_crashed > (int)party->waits_for || others_ended(p);
    return party->state == WAITS_LOCK && lock_is_free(party->waits_for);
}

/* One of `options`: what the search has reached at this depth, 0 where it has not been yet. */
static int choose(int options) {
    if (depth == STEPS) explore_failed(__FILE__, __LINE__, "too many steps: something runs in circles");
    struct choice *here = path + depth++;
    if (depth > decided) {
        here->taken = 0;
        here->options = (uint8_t)options;
        decided = depth;
    } else if (here->options != options) {
        explore_failed(__FILE__, __LINE__, "not the same run again: something outside the schedule decides");
    }
    return here->taken;
}

static void switch_to(int next) {
    int before = current;
    current = next;
    ucontext_t *from = before == NOBODY ? &home : &parties[before].context;
    ucontext_t *to = next == NOBODY ? &home : &parties[next].context;
    if (before != next) swapcontext(from, to);
}

/* The current party cannot go on: somebody else must, or all have ended. */
static void yield_away(void) {
    int able[PARTIES], n = 0, waiting = 0;
    for (int p = 0; p < PARTIES; p++) {
        if (can_go_on(p)) able[n++] = p;
        else waiting += parties[p].state == WAITS_LOCK || parties[p].state == WAITS_FUTEX;
    }
    if (!n && waiting) explore_failed(__FILE__, __LINE__, "everybody sleeps: a wake-up was lost");
    switch_to(n ? able[n > 1 ? choose(n) : 0] : NOBODY);
}

static void note_turn(void) {
    if (n_turns == TURNS) return;
    turns[n_turns].party = current;
    turns[n_turns].n = backtrace(turns[n_turns].frames, FRAMES);
    n_turns++;
}

static void crash(void) {
    n_crashed++;
    parties[current].state = CRASHED;
    yield_away();
}

/* Before a step of the current party: go on, let another run first, or crash. */
void point(enum kind kind, const volatile void *at) {
    if (current == NOBODY || !recording) return;
    if (kind == WRITE || at) {
        const struct range *range = range_of((uintptr_t)at);
        if (!range || !range->shared) return;
    }
    int others[PARTIES], n = 0;
    if (kind == SYNC && (limits->preemptions < 0 || preempted < limits->preemptions))
        for (int p = 0; p < PARTIES; p++)
            if (p != current && can_go_on(p)) others[n++] = p;
    int can_crash = n_crashed < limits->crashes && now_running->may_crash >> current & 1;
    if (!n && !can_crash) return;
    int taken = choose(1 + n + can_crash);
    if (!taken) return;
    note_turn();
    if (taken > n) {
        crash();
        return;
    }
    preempted++;
    switch_to(others[taken - 1]);
}

void block(enum state why, uintptr_t on) {
    parties[current].state = why;
    parties[current].waits_for = on;
    yield_away();
    parties[current].state = READY;
}

int has_crashed(int party) { return party >= 0 && party < PARTIES && parties[party].state == CRASHED; }
int outside(void) { return current == NOBODY; }
int is_setup(void) { return !recording; }

/* Let those go on who sleep at that word, at most `most`; returns how many. */
int wake_at(uintptr_t word, int most) {
    int n = 0;
    for (int p = 0; p < PARTIES && n < most; p++)
        if (parties[p].state == WAITS_FUTEX && parties[p].waits_for == word) {
            parties[p].state = READY;
            n++;
        }
    return n;
}

int await_crash(int seen) {
    if (n_crashed <= seen && !others_ended(current)) block(WAITS_CRASH, (uintptr_t)seen);
    return n_crashed;
}

static void run_party(void) {
    parties[current].state = READY;
    now_running->work[current]();
    parties[current].state = DONE;
    yield_away();
}

static void begin_schedule(void) {
    depth = preempted = n_turns = 0;
    n_crashed = 0;
    forget_run();
    for (int p = 0; p < PARTIES; p++) {
        struct party *party = parties + p;
        party->state = !now_running->work[p] ? DONE : p == now_running->supervisor ? WAITS_CRASH : READY;
        party->waits_for = 0;
        if (!party->stack) party->stack = malloc(STACK);
        getcontext(&party->context);
        party->context.uc_stack.ss_sp = party->stack;
        party->context.uc_stack.ss_size = STACK;
        party->context.uc_link = &home;
        makecontext(&party->context, run_party, 0);
    }
}

static int next_schedule(void) {
    while (decided && path[decided - 1].taken + 1 >= path[decided - 1].options) decided--;
    if (!decided) return 0;
    path[decided - 1].taken++;
    return 1;
}

uint64_t explore(const struct scenario *scenario, const struct bounds *bounds, int *complete) {
    uint64_t count = 0;
    now_running = scenario;
    limits = bounds;
    decided = 0;
    *complete = 0;
    do {
        recording = 1;
        begin_schedule();
        identity = 0;
        scenario->start();
        yield_away();
        scenario->finish();
        recording = 0;
        take_back();
        count++;
        if (!next_schedule()) *complete = 1;
    } while (!*complete && count < bounds->most);
    now_running = NULL;
    return count;
}

/* ---- what the compiler calls ---- */

#define PLAIN(size)                                                                                      \
    void __tsan_read##size(void *at);                                                                    \
    void __tsan_read##size(void *at) { (void)at; }                                                       \
    void __tsan_unaligned_read##size(void *at);                                                          \
    void __tsan_unaligned_read##size(void *at) { (void)at; }                                             \
    void __tsan_write##size(void *at);                                                                   \
    void __tsan_write##size(void *at) { plain_write((uintptr_t)at, size); }                              \
    void __tsan_unaligned_write##size(void *at);                                                         \
    void __tsan_unaligned_write##size(void *at) { plain_write((uintptr_t)at, size); }

static void plain_write(uintptr_t at, size_t size) {
    if (!recording || !range_of(at)) return;
    point(WRITE, (void *)at);
    log_write(at, size);
}
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *at);
void __tsan_func_entry(void *at) { (void)at; }
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_read_range(void *at, size_t size);
void __tsan_read_range(void *at, size_t size) { (void)at, (void)size; }
void __tsan_write_range(void *at, size_t size);
void __tsan_write_range(void *at, size_t size) { plain_write((uintptr_t)at, size); }
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) { (void)order; }
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) { (void)order; }

static void atomic_step(volatile void *at, size_t size, int writes) {
    point(SYNC, at);
    if (writes && range_of((uintptr_t)at)) log_write((uintptr_t)at, size);
}

#define ATOMIC_OP(bits, type, name, expression)                                \
    type __tsan_atomic##bits##_##name(volatile type *at, type v, int order);   \
    type __tsan_atomic##bits##_##name(volatile type *at, type v, int order) {  \
        (void)order;                                                           \
        atomic_step(at, sizeof *at, 1);                                        \
        type old = *at;                                                        \
        *at = (type)(expression);                                              \
        return old;                                                            \
    }
#define ATOMIC(bits, type)                                                                                  \
    type __tsan_atomic##bits##_load(const volatile type *at, int order);                                    \
    type __tsan_atomic##bits##_load(const volatile type *at, int order) {                                   \
        (void)order;                                                                                        \
        point(SYNC, at);                                                                                    \
        return *at;                                                                                         \
    }                                                                                                       \
    void __tsan_atomic##bits##_store(volatile type *at, type v, int order);                                 \
    void __tsan_atomic##bits##_store(volatile type *at, type v, int order) {                                \
        (void)order;                                                                                        \
        atomic_step(at, sizeof *at, 1);                                                                     \
        *at = v;                                                                                            \
    }                                                                                                       \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected, type v, int o, int f); \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *expected, type v, int o, int f) { \
        (void)o, (void)f;                                                                                   \
        atomic_step(at, sizeof *at, 1);                                                                     \
        type old = *at;                                                                                     \
        if (old == *expected) {                                                                             \
            *at = v;                                                                                        \
            return 1;                                                                                       \
        }                                                                                                   \
        *expected = old;                                                                                    \
        return 0;                                                                                           \
    }                                                                                                       \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type v, int o, int f); \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *expected, type v, int o, int f) { \
        return __tsan_atomic##bits##_compare_exchange_strong(at, expected, v, o, f);                        \
    }                                                                                                       \
    ATOMIC_OP(bits, type, exchange, v)                                                                      \
    ATOMIC_OP(bits, type, fetch_add, old + v)                                                               \
    ATOMIC_OP(bits, type, fetch_sub, old - v)                                                               \
    ATOMIC_OP(bits, type, fetch_and, old & v)                                                               \
    ATOMIC_OP(bits, type, fetch_or, old | v)                                                                \
    ATOMIC_OP(bits, type, fetch_xor, old ^ v)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
