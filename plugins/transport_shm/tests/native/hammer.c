/* No wake-up is lost between CPUs:  hammer ROUNDS SPIN_US
 *
 * Ping and pong through two queues of one place, two processes on two CPUs, both asleep most of the time; then the same
 * at doorbells; then two producers and two consumers at one queue of one place. Nobody waits with a limit that a test
 * would live to see, so a lost wake-up hangs it. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "dshm.h"

#define FOREVER 100000000000000ll
#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);     \
            abort();                                                       \
        }                                                                  \
    } while (0)

enum { THERE, BACK, ID };

static struct dshm *h;
static int rounds;

static void on_cpu(int which) {
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    int n = CPU_COUNT(&all), wanted = which % n;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && wanted-- == 0) CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

static pid_t beside(void (*work)(struct dshm *), int cpu) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid) return pid;
    struct dshm *g;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    on_cpu(cpu);
    CHECK(dshm_attach(dshm_fd(h), ID, "child", &g) == DSHM_OK);
    work(g);
    dshm_close(g);
    dshm_free(g);
    _exit(0);
}

static void join(pid_t pid) {
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int64_t get_by_bell(struct dshm *g, int bell, uint32_t queue) {
    for (;;) {
        int64_t key = dshm_get(g, queue, 0);
        if (key >= 0) return key;
        CHECK(key == DSHM_E_TIMEOUT);
        CHECK(dshm_bell_wait(g, (uint32_t)bell, &queue, 1, NULL, 0, FOREVER) == 1);
    }
}

static void echo(struct dshm *g) {
    for (int i = 0; i < rounds; i++) CHECK(dshm_put(g, BACK, dshm_get(g, THERE, FOREVER), FOREVER) == DSHM_OK);
}

static void echo_by_bell(struct dshm *g) {
    int bell = dshm_bell_take(g);
    for (int i = 0; i < rounds; i++) CHECK(dshm_put(g, BACK, get_by_bell(g, bell, THERE), 0) == DSHM_OK);
    CHECK(dshm_bell_drop(g, (uint32_t)bell) == DSHM_OK);
}

static void ping(int by_bell) {
    int bell = dshm_bell_take(h);
    for (int i = 0; i < rounds; i++) {
        int64_t key = dshm_alloc(h, 64, 0);
        CHECK(key >= 0 && dshm_put(h, THERE, key, by_bell ? 0 : FOREVER) == DSHM_OK);
        key = by_bell ? get_by_bell(h, bell, BACK) : dshm_get(h, BACK, FOREVER);
        CHECK(key >= 0 && dshm_release(h, key) == DSHM_OK);
    }
    CHECK(dshm_bell_drop(h, (uint32_t)bell) == DSHM_OK);
}

static void produce(struct dshm *g) {
    for (int i = 0; i < rounds; i++) {
        int64_t key = dshm_alloc(g, 64, FOREVER);
        CHECK(key >= 0 && dshm_put(g, THERE, key, FOREVER) == DSHM_OK);
    }
}

static void consume(struct dshm *g) {
    for (int i = 0; i < rounds; i++) CHECK(dshm_release(g, dshm_get(g, THERE, FOREVER)) == DSHM_OK);
}

int main(int argc, char **argv) {
    struct dshm_totals totals;
    if (argc != 3) return 2;
    rounds = atoi(argv[1]);
    CHECK(dshm_create(1 << 20, 16, 8, 4, (uint32_t)atoi(argv[2]), ID, &h) == DSHM_OK);
    for (int q = 0; q <= BACK; q++) CHECK(dshm_queue_create(h, (char[2]){(char)('a' + q), 0}, 1, DSHM_BLOCK, 0, 0) == q);
    on_cpu(0);
    pid_t pid = beside(echo, 1);
    ping(0);
    join(pid);
    pid = beside(echo_by_bell, 1);
    ping(1);
    join(pid);
    pid_t many[] = {beside(produce, 0), beside(produce, 1), beside(consume, 1), beside(consume, 0)};
    for (int i = 0; i < 4; i++) join(many[i]);
    CHECK(dshm_totals(h, &totals) == DSHM_OK && totals.blocks_in_use == 0);
    dshm_close(h);
    dshm_free(h);
    puts("fine");
    return 0;
}
