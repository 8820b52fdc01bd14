/* A process stops or is killed at a chosen place inside the C code, again and again:
 *
 *   faults stop|kill|go-on|random ROUNDS [SEED]
 *
 *   stop    stops there; others go on beside it; then it is killed
 *   go-on   stops there; others go on beside it; then it goes on and ends as usual
 *   kill    is killed there
 *   random  is killed at any moment
 *
 * Each round takes the next place and a few more or fewer visits to it. The victim moves messages from "in" to "out",
 * makes some itself, holds one twice now and then, waits, closes its queue, or reclaims a dead brother. After it, all
 * that was sent came once and in order or was reported as lost, at most one message is in doubt, nobody holds anything,
 * the counters agree, and all memory can be had. Waits are longer than a test may last, so what hangs is seen. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dshm.h"
#include "fault.h"

#define MS 1000000ll
#define LIMIT (20000 * MS)
#define CHECK(what)                                                                                     \
    do {                                                                                                \
        if (!(what)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s (round %d, place %d, skip %u, %s)\n", __FILE__, __LINE__, #what, \
                    round_number, place, skip, mode);                                                   \
            abort();                                                                                    \
        }                                                                                               \
    } while (0)

enum { ID = 9, BLOCKS = 32, MESSAGES = 12, OWN = 1000, IN = 0, OUT = 1, BESIDE = 2, POLICIES = 5, LIST = 64 };

static const char *mode;
static int round_number, place, n_came, n_lost, came[LIST * 8], lost[LIST];
static unsigned skip;
static int reached[DSHM_STOP_COUNT];
static struct dshm *h;
static uint64_t limit;
static int64_t spare, stock[MESSAGES]; /* made before: memory may be locked by whoever stops */

static unsigned dice(unsigned n) {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint32_t *number_in(struct dshm *g, int64_t key) {
    uint64_t address, size;
    CHECK(dshm_block_info(g, key, &address, &size) == DSHM_OK);
    return (uint32_t *)(uintptr_t)address;
}

static int64_t make(struct dshm *g, int number, uint64_t size, int64_t wait) {
    int64_t key = dshm_alloc(g, size, wait);
    if (key >= 0) *number_in(g, key) = (uint32_t)number;
    return key;
}

/* A message sent, or given back if there was no room. */
static int send_or_drop(struct dshm *g, uint32_t queue, int64_t key, int64_t wait) {
    int rc = dshm_put(g, queue, key, wait);
    if (rc) CHECK(dshm_release(g, key) == DSHM_OK);
    for (int64_t old; (old = dshm_take_dropped(g, queue)) >= 0;) CHECK(dshm_release(g, old) == DSHM_OK);
    return rc;
}

/* ---- the victim ---- */

static void pass_on(struct dshm *g, int64_t key, int i) {
    int twice = i % 3 == 0;
    if (twice) CHECK(dshm_retain(g, key) == DSHM_OK);
    send_or_drop(g, OUT, key, LIMIT);
    if (twice) CHECK(dshm_release(g, key) == DSHM_OK);
}

static void be_victim(struct dshm *g) {
    int bell = dshm_bell_take(g);
    const uint32_t in = IN, out = OUT;
    for (int i = 0; i < 4 * MESSAGES; i++) {
        if (i % 4 == 3) dshm_bell_wait(g, (uint32_t)bell, &in, 1, &out, 1, MS / 10);
        int64_t key = dshm_get(g, IN, i % 2 ? MS : 0);
        if (key >= 0) pass_on(g, key, i);
        if (i % 3 == 1) {
            key = make(g, OWN + i, i % 2 ? 9000 : 300, 10 * MS);
            if (key >= 0) send_or_drop(g, OUT, key, 50 * MS);
        }
        if (i % 16 == 15) dshm_trim(g);
    }
    dshm_bell_drop(g, (uint32_t)bell);
    dshm_queue_close(g, OUT);
}

static int take_back(struct dshm *g, pid_t pid, int report) {
    int member, n = 0;
    while ((member = dshm_reclaim_find(g, (uint32_t)pid)) >= 0) {
        struct dshm_lost one = {0, 0, 0};
        int rc;
        while ((rc = dshm_reclaim_next(g, (uint32_t)member, &one)) == DSHM_OK) {
            if (report && one.queue == IN && n_lost < LIST) lost[n_lost++] = (int)*number_in(g, one.key);
            CHECK(dshm_release(g, one.key) == DSHM_OK);
            n++;
        }
        CHECK(rc == DSHM_E_END);
    }
    CHECK(member == DSHM_E_MISSING);
    return n;
}

static pid_t start(void (*work)(struct dshm *, pid_t), pid_t arg, int fault) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid) return pid;
    struct dshm *g;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(dshm_attach(dshm_fd(h), ID, "child", &g) == DSHM_OK);
    if (fault) dshm_fault_at(g, fault, strcmp(mode, "kill") ? DSHM_FAULT_STOP : DSHM_FAULT_KILL, skip);
    work(g, arg);
    dshm_close(g);
    _exit(0);
}

static void hold_one(struct dshm *g, pid_t unused) {
    (void)unused;
    CHECK(dshm_get(g, IN, LIMIT) >= 0);
    kill(getpid(), SIGKILL);
}

static void exercise(struct dshm *g, pid_t brother) {
    if (brother) take_back(g, brother, 0);
    be_victim(g);
}

/* ---- what goes on beside it ---- */

/* The block is this member's own, so that nothing a stopped process can have locked is needed. */
static void go_on_beside(void) {
    for (int i = 0; i < 6; i++) {
        CHECK(dshm_release(h, spare) == DSHM_OK);
        int64_t key = make(h, i, 300, 0);
        CHECK(key >= 0 && dshm_put(h, BESIDE, key, 0) == DSHM_OK);
        spare = dshm_get(h, BESIDE, 0);
        CHECK(spare >= 0 && (int)*number_in(h, spare) == i);
    }
}

static void take_out(int64_t wait) {
    for (int64_t key; (key = dshm_get(h, OUT, wait)) >= 0; wait = 0) {
        CHECK(n_came < LIST * 8);
        came[n_came++] = (int)*number_in(h, key);
        CHECK(dshm_release(h, key) == DSHM_OK);
    }
}

/* Feed the victim and take what it makes until it stops or ends; returns its status. */
static int drive(pid_t pid, int *fed) {
    int status = 0, random_kill = !strcmp(mode, "random");
    int64_t deadline = now() + LIMIT, kill_at = random_kill ? now() + (int64_t)dice(3000) * 1000 : 0;
    while (waitpid(pid, &status, WNOHANG | WUNTRACED) != pid) {
        CHECK(now() < deadline);
        if (random_kill && now() > kill_at) kill(pid, SIGKILL);
        if (*fed < MESSAGES && dshm_put(h, IN, stock[*fed], 0) == DSHM_OK) ++*fed;
        take_out(MS / 10);
    }
    return status;
}

/* ---- afterwards ---- */

static int times(const int *list, int n, int value) {
    int found = 0;
    for (int i = 0; i < n; i++) found += list[i] == value;
    return found;
}

/* What was being reclaimed may be reported twice: rather that than never. */
static void check_messages(int fed, int drops, int died, int reclaimed) {
    int last = 0, last_own = 0, twice = 0;
    for (int i = 0; i < n_came; i++) {
        int *before = came[i] >= OWN ? &last_own : &last;
        CHECK(came[i] > *before);
        *before = came[i];
    }
    for (int value = 1; value <= fed; value++) {
        int c = times(came, n_came, value), l = times(lost, n_lost, value);
        CHECK(c <= 1 && l <= 1 + reclaimed);
        twice += c && l;
        if (!drops) CHECK(c + l >= 1);
    }
    CHECK(n_lost <= 1 + reclaimed && twice <= 1 && (died || n_lost <= reclaimed));
}

static void check_group(void) {
    struct dshm_totals totals;
    struct dshm_queue_info info;
    for (uint32_t q = 0; q < 3; q++) {
        CHECK(dshm_queue_info(h, q, &info) == DSHM_OK);
        CHECK(info.sent == info.delivered + info.dropped + info.failed + info.level);
    }
    CHECK(dshm_totals(h, &totals) == DSHM_OK && totals.blocks_in_use == 0 && totals.bytes_in_use == 0);
    int64_t all = dshm_alloc(h, limit, 0);
    CHECK(all >= 0 && dshm_release(h, all) == DSHM_OK);
    for (uint32_t m = 0; m < totals.members; m++) {
        struct dshm_use use;
        if (dshm_member_use(h, m, &use) == DSHM_OK) CHECK(use.blocks == 0);
    }
}

static void drain_in(void) {
    for (int64_t key; (key = dshm_get(h, IN, 0)) >= 0;) {
        came[n_came++] = (int)*number_in(h, key);
        CHECK(dshm_release(h, key) == DSHM_OK);
    }
}

static void run_round(void) {
    int policy = round_number % POLICIES, fed = 0, stopped = 0;
    n_came = n_lost = 0;
    limit = 1 << 20;
    CHECK(dshm_create(limit, BLOCKS, 8, 4, 0, ID, &h) == DSHM_OK);
    CHECK(dshm_queue_create(h, "in", 2, DSHM_BLOCK, 0, 0) == IN);
    CHECK(dshm_queue_create(h, "out", 2, policy, 1000 * MS, 0) == OUT);
    CHECK(dshm_queue_create(h, "beside", 2, DSHM_BLOCK, 0, 0) == BESIDE);
    CHECK((spare = make(h, 0, 300, 0)) >= 0);
    for (int i = 0; i < MESSAGES; i++) CHECK((stock[i] = make(h, i + 1, 300, 0)) >= 0);
    pid_t brother = 0;
    if (place == DSHM_STOP_RECLAIM_HELD) {
        CHECK(dshm_put(h, IN, stock[fed++], 0) == DSHM_OK);
        brother = start(hold_one, 0, 0);
        CHECK(waitpid(brother, NULL, 0) == brother);
    }
    pid_t pid = start(exercise, brother, place);
    int status = drive(pid, &fed);
    if (WIFSTOPPED(status)) {
        stopped = 1;
        go_on_beside();
        kill(pid, strcmp(mode, "go-on") ? SIGKILL : SIGCONT);
        status = strcmp(mode, "go-on") ? waitpid(pid, &status, 0), status : drive(pid, &fed);
    }
    int died = WIFSIGNALED(status);
    CHECK(died ? WTERMSIG(status) == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    reached[place] += stopped || (died && place);
    CHECK(dshm_release(h, spare) == DSHM_OK);
    for (int i = fed; i < MESSAGES; i++) CHECK(dshm_release(h, stock[i]) == DSHM_OK);
    take_back(h, pid, 1);
    if (brother) take_back(h, brother, 1);
    take_out(0);
    drain_in();
    check_messages(fed, policy != DSHM_BLOCK || brother, died, brother != 0);
    check_group();
    dshm_close(h);
    dshm_free(h);
}

static int lacking(int random_kill) {
    int missed = 0;
    for (int i = 1; i < DSHM_STOP_COUNT && !random_kill; i++) missed += !reached[i];
    return missed;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    mode = argv[1];
    int rounds = atoi(argv[2]), random_kill = !strcmp(mode, "random");
    for (int i = argc > 3 ? atoi(argv[3]) : 0; i > 0; i--) dice(2);
    /* Where many rounds are asked for, a place that chance and other work kept from being reached gets more of them. */
    int most = rounds < 4 * DSHM_STOP_COUNT ? rounds : 8 * rounds;
    for (round_number = 0; round_number < rounds || (lacking(random_kill) && round_number < most); round_number++) {
        place = random_kill ? 0 : 1 + round_number % (DSHM_STOP_COUNT - 1);
        skip = round_number < DSHM_STOP_COUNT * 2 ? 0 : dice(4);
        run_round();
    }
    int missed = lacking(random_kill);
    for (int i = 1; i < DSHM_STOP_COUNT && !random_kill; i++)
        if (!reached[i]) printf("place %d was never reached\n", i);
    printf("%d rounds, %d places, %d never reached\n", rounds, DSHM_STOP_COUNT - 1, missed);
    return missed && rounds >= 5 * DSHM_STOP_COUNT ? 1 : 0;
}
