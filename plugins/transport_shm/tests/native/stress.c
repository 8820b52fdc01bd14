/* Everything at once, to run under sanitizers:  stress threads|processes ROUNDS
 *
 * Producers and consumers share two tiny queues; others wait at doorbells, allocate odd sizes, retain, trim and look at
 * the counters. Waits last longer than the test may, so a lost wake-up hangs it. At the end nothing may be in use. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dshm.h"

#define FOREVER 100000000000ll
#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);     \
            abort();                                                       \
        }                                                                  \
    } while (0)

enum { WORKERS = 3, QUEUES = 2, ID = 77 };

static int rounds;

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

static void *work(void *arg) {
    struct job *job = arg;
    if (job->number < WORKERS) produce(job);
    else if (job->number < 2 * WORKERS) consume(job);
    else disturb(job);
    return NULL;
}

static void in_threads(struct dshm *h) {
    pthread_t threads[2 * WORKERS + 1];
    struct job jobs[2 * WORKERS + 1];
    for (int i = 0; i <= 2 * WORKERS; i++) {
        jobs[i] = (struct job){h, i};
        CHECK(pthread_create(&threads[i], NULL, work, &jobs[i]) == 0);
    }
    for (int i = 0; i <= 2 * WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void in_processes(struct dshm *h) {
    pid_t pids[2 * WORKERS + 1];
    for (int i = 0; i <= 2 * WORKERS; i++) {
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
    for (int i = 0; i <= 2 * WORKERS; i++) {
        int status;
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv) {
    struct dshm *h;
    struct dshm_totals totals;
    CHECK(argc == 3);
    rounds = atoi(argv[2]);
    CHECK(dshm_create(1 << 20, 48, 16, 4, 5, ID, &h) == DSHM_OK);
    CHECK(dshm_queue_create(h, "a", 1, DSHM_BLOCK, 0, 0) == 0);
    CHECK(dshm_queue_create(h, "b", 3, DSHM_BLOCK, 0, 0) == 1);
    CHECK(dshm_queue_create(h, "b", 3, DSHM_BLOCK, 0, 0) == DSHM_E_EXISTS);
    if (strcmp(argv[1], "threads") == 0) in_threads(h);
    else in_processes(h);
    CHECK(dshm_totals(h, &totals) == DSHM_OK);
    CHECK(totals.blocks_in_use == 0 && totals.bytes_in_use == 0);
    dshm_close(h);
    CHECK(dshm_alloc(h, 1, 0) == DSHM_E_GROUP_CLOSED);
    dshm_free(h);
    puts("fine");
    return 0;
}
