/* Everything at once, to run under sanitizers:  stress threads|members|processes ROUNDS
 *
 * Producers and consumers share two tiny queues, and queues that give way when they are full; others go through the
 * table of functions, wait at doorbells, allocate odd sizes, retain, trim, close, and look at the counters. Waits last
 * longer than the test may, so a lost wake-up hangs it. At the end nothing may be in use.
 *
 * `members`: each thread is a member of its own, as a process would be, but all use one mapping, so that
 * ThreadSanitizer sees what members do to each other. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dflow/transport.h"
#include "dshm.h"

#define FOREVER 100000000000ll
#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);     \
            abort();                                                       \
        }                                                                  \
    } while (0)

enum { WORKERS = 3, QUEUES = 2, FIRST_LOOSE = QUEUES, LOOSE = 4, ALL = QUEUES + LOOSE, JOBS = 2 * WORKERS + 4, ID = 77 };

static int rounds, one_mapping;
static void *mapping;

void *__real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t size);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t size);

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (one_mapping && mapping && flags & MAP_SHARED) return mapping;
    void *got = __real_mmap(at, size, protection, flags, fd, offset);
    if (!mapping && flags & MAP_SHARED) mapping = got;
    return got;
}

int __wrap_munmap(void *at, size_t size) { return one_mapping && at == mapping ? 0 : __real_munmap(at, size); }

struct job {
    struct dshm *h;
    int number;
};

static void fill(struct dshm *h, int64_t key, unsigned char value) {
    uint64_t address, size;
    CHECK(dshm_block_info(h, key, &address, &size) == DSHM_OK);
    memset((void *)(uintptr_t)address, value, size);
}

static void check_and_release(struct dshm *h, int64_t key) {
    uint64_t address, size;
    CHECK(key >= 0 && dshm_block_info(h, key, &address, &size) == DSHM_OK);
    const unsigned char *data = (const unsigned char *)(uintptr_t)address;
    CHECK(data[0] == data[size / 2] && data[0] == data[size - 1]);
    CHECK(dshm_release(h, key) == DSHM_OK);
}

static void produce(struct job *job) {
    for (int i = 0; i < rounds; i++) {
        int64_t key = dshm_alloc(job->h, 1 + (uint64_t)(i * 977 % 9000), FOREVER);
        CHECK(key >= 0);
        fill(job->h, key, (unsigned char)i);
        if (i % 3 == 0) {
            CHECK(dshm_retain(job->h, key) == DSHM_OK);
            CHECK(dshm_put(job->h, (uint32_t)i % QUEUES, key, FOREVER) == DSHM_OK);
            check_and_release(job->h, key);
        } else {
            CHECK(dshm_put(job->h, (uint32_t)i % QUEUES, key, FOREVER) == DSHM_OK);
        }
    }
}

static void consume(struct job *job) {
    for (int i = 0; i < rounds; i++) check_and_release(job->h, dshm_get(job->h, (uint32_t)i % QUEUES, FOREVER));
}

/* Rings the doorbell of nobody, trims, counts, and finds memory for large blocks beside the others. */
static void disturb(struct job *job) {
    struct dshm_totals totals;
    const uint32_t ids[QUEUES] = {0, 1};
    int bell = dshm_bell_take(job->h);
    CHECK(bell >= 0);
    for (int i = 0; i < rounds / 20; i++) {
        CHECK(dshm_bell_wait(job->h, (uint32_t)bell, ids, QUEUES, ids, QUEUES, 100000) >= 0);
        CHECK(dshm_bell_ring(job->h, (uint32_t)bell) == DSHM_OK);
        CHECK(dshm_totals(job->h, &totals) == DSHM_OK && totals.bytes_in_use <= totals.memory_limit);
        int64_t key = dshm_alloc(job->h, 300000, 1000000);
        if (key >= 0) CHECK(dshm_release(job->h, key) == DSHM_OK);
        if (i % 16 == 0) CHECK(dshm_trim(job->h) >= 0);
    }
    CHECK(dshm_bell_drop(job->h, (uint32_t)bell) == DSHM_OK);
}

/* Queues that give way: nobody waits, what is displaced goes. */
static void give_way(struct job *job) {
    for (int i = 0; i < rounds; i++) {
        uint32_t queue = FIRST_LOOSE + (uint32_t)i % LOOSE;
        int64_t key = dshm_alloc(job->h, 100 + (uint64_t)(i * 331 % 5000), FOREVER);
        CHECK(key >= 0);
        fill(job->h, key, (unsigned char)i);
        int rc = dshm_put(job->h, queue, key, 0);
        if (rc) {
            CHECK(rc == DSHM_E_TIMEOUT); /* of a kind that blocks until messages are too old */
            check_and_release(job->h, key);
        }
        while ((key = dshm_take_dropped(job->h, queue)) >= 0) check_and_release(job->h, key);
        if (i % 2 && (key = dshm_get(job->h, queue, 0)) >= 0) check_and_release(job->h, key);
        while ((key = dshm_take_dropped(job->h, queue)) >= 0) check_and_release(job->h, key);
    }
}

/* The same queues as native code sees them. */
static void by_table(struct job *job) {
    const dflow_transport *t = dshm_native_table(job->h);
    CHECK(t && t->abi == DFLOW_TRANSPORT_ABI && DFLOW_TRANSPORT_HAS(t, last_error));
    for (int i = 0; i < rounds; i++) {
        dflow_block_view view;
        dflow_queue_stats stats;
        uint32_t queue = FIRST_LOOSE + (uint32_t)i % LOOSE;
        int64_t block = t->allocate(t->context, 4000, FOREVER);
        CHECK(block >= 0 && t->view(t->context, block, &view) == DFLOW_OK && view.size >= 4000);
        memset(view.head, i, view.size);
        CHECK(t->retain(t->context, block) == DFLOW_OK);
        if (t->enqueue(t->context, queue, block, 0)) CHECK(t->release(t->context, block) == DFLOW_OK);
        CHECK(t->release(t->context, block) == DFLOW_OK);
        while ((block = t->take_dropped(t->context, queue)) >= 0) CHECK(t->release(t->context, block) == DFLOW_OK);
        if ((block = t->dequeue(t->context, queue, 0)) >= 0) check_and_release(job->h, block);
        while ((block = t->take_dropped(t->context, queue)) >= 0) CHECK(t->release(t->context, block) == DFLOW_OK);
        CHECK(t->level(t->context, queue) >= 0 && t->queue_stats(t->context, queue, &stats) == DFLOW_OK);
        CHECK(stats.level <= stats.depth);
    }
}

static void *work(void *arg) {
    struct job *job = arg;
    if (job->number < WORKERS) produce(job);
    else if (job->number < 2 * WORKERS) consume(job);
    else if (job->number == 2 * WORKERS) disturb(job);
    else if (job->number == 2 * WORKERS + 1) by_table(job);
    else give_way(job);
    return NULL;
}

static void in_threads(struct dshm *h, int members) {
    pthread_t threads[JOBS];
    struct job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){h, i};
        if (members) CHECK(dshm_attach(dshm_fd(h), ID, "thread", &jobs[i].h) == DSHM_OK);
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (int i = 0; i < JOBS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        if (!members) continue;
        dshm_close(jobs[i].h);
        dshm_free(jobs[i].h);
    }
}

static void in_processes(struct dshm *h) {
    pid_t pids[JOBS];
    for (int i = 0; i < JOBS; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i]) continue;
        struct job job = {NULL, i};
        CHECK(dshm_alloc(h, 1, 0) == DSHM_E_FORKED);
        CHECK(dshm_attach(dshm_fd(h), ID, "child", &job.h) == DSHM_OK);
        work(&job);
        dshm_close(job.h);
        dshm_free(job.h);
        _exit(0);
    }
    for (int i = 0; i < JOBS; i++) {
        int status;
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void drain(struct dshm *h) {
    for (uint32_t q = 0; q < ALL; q++) {
        struct dshm_queue_info info;
        int64_t key;
        while ((key = dshm_get(h, q, 0)) >= 0) check_and_release(h, key);
        while ((key = dshm_take_dropped(h, q)) >= 0) check_and_release(h, key);
        CHECK(dshm_queue_info(h, q, &info) == DSHM_OK && info.level == 0 && info.failed == 0);
        CHECK(info.sent == info.delivered + info.dropped && info.sent >= (uint64_t)rounds / LOOSE / 2);
    }
}

int main(int argc, char **argv) {
    static const struct { const char *name; uint32_t depth; int overflow; uint64_t age; } queues[ALL] = {
        {"a", 1, DSHM_BLOCK, 0}, {"b", 3, DSHM_BLOCK, 0}, {"c", 2, DSHM_DROP_OLDEST, 0}, {"d", 2, DSHM_DROP_NEWEST, 0},
        {"e", 3, DSHM_KEEP_LATEST, 0}, {"f", 2, DSHM_MAX_AGE, 10000}};
    struct dshm *h;
    struct dshm_totals totals;
    CHECK(argc == 3);
    rounds = atoi(argv[2]);
    CHECK(dshm_create(1 << 20, 96, 32, 8, 5, ID, &h) == DSHM_OK);
    for (int q = 0; q < ALL; q++)
        CHECK(dshm_queue_create(h, queues[q].name, queues[q].depth, queues[q].overflow, queues[q].age, 0) == q);
    CHECK(dshm_queue_create(h, "b", 3, DSHM_BLOCK, 0, 0) == DSHM_E_EXISTS);
    one_mapping = strcmp(argv[1], "members") == 0;
    if (strcmp(argv[1], "processes") == 0) in_processes(h);
    else in_threads(h, one_mapping);
    drain(h);
    CHECK(dshm_totals(h, &totals) == DSHM_OK);
    CHECK(totals.blocks_in_use == 0 && totals.bytes_in_use == 0);
    dshm_close(h);
    CHECK(dshm_alloc(h, 1, 0) == DSHM_E_GROUP_CLOSED);
    dshm_free(h);
    puts("fine");
    return 0;
}
