/* The runtime without a transport: queues that give and take at once. Prints microseconds of CPU time a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dflow/flow_func_runtime.h"
#include "dflow/transport.h"

enum { BLOCKS = 128, SIZE = 256 + 1024 + 4096 };

static struct {
    _Alignas(4096) unsigned char memory[BLOCKS][8192];
    uint64_t taken, total;
} ring;

static int64_t allocate(void *c, uint64_t size, int64_t wait) { return (void)c, (void)size, (void)wait, DFLOW_E_TIMEOUT; }
static int same(void *c, int64_t block) { return (void)c, (void)block, DFLOW_OK; }
static int view(void *c, int64_t block, dflow_block_view *out) {
    (void)c;
    *out = (dflow_block_view){ring.memory[block], ring.memory[block] + 256, SIZE};
    return DFLOW_OK;
}
static int64_t find(void *c, const char *name) { return (void)c, (void)name, DFLOW_E_MISSING; }
static int enqueue(void *c, uint32_t queue, int64_t block, int64_t wait) {
    return (void)c, (void)queue, (void)block, (void)wait, DFLOW_OK;
}
static int64_t dequeue(void *c, uint32_t queue, int64_t wait) {
    (void)c, (void)queue, (void)wait;
    if (ring.taken == ring.total) return DFLOW_E_CLOSED;
    int64_t block = (int64_t)(ring.taken++ % BLOCKS);
    memcpy(ring.memory[block] + 192, &ring.taken, 8);
    return block;
}
static int64_t dropped(void *c, uint32_t queue) { return (void)c, (void)queue, DFLOW_E_MISSING; }
static int64_t level(void *c, uint32_t queue) { return (void)c, (void)queue, 0; }
static int closed(void *c, uint32_t queue) { return (void)c, (void)queue, DFLOW_OK; }
static int wait_for(void *c, const uint32_t *r, uint32_t nr, const uint32_t *w, uint32_t nw, int64_t wait) {
    return (void)c, (void)r, (void)nr, (void)w, (void)nw, (void)wait, 1;
}
static int stats(void *c, uint32_t queue, dflow_queue_stats *out) {
    (void)c, (void)queue;
    *out = (dflow_queue_stats){0};
    return DFLOW_OK;
}
static const char *error(void *c) { return (void)c, ""; }

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    const dflow_transport table = {DFLOW_TRANSPORT_ABI, sizeof table, NULL, allocate, same, same, view, find, enqueue,
                                   dequeue, dropped, level, closed, wait_for, stats, error};
    const uint32_t zero = 0, one = 1;
    const struct dflow_udf_func func = {"pass", &zero, &zero, 1, 1, 0, 0};
    const struct dflow_udf_route route = {&one, 1, 0, 0};
    const struct dflow_udf_output output = {&route, 1, 0};
    struct dflow_udf_config config = {.api = DFLOW_UDF_API, .transport = &table, .node = "pass", .funcs = &func,
                                      .inputs = &zero, .outputs = &output, .n_funcs = 1, .n_inputs = 1,
                                      .n_outputs = 1, .align_timeout_ms = -1};
    struct dflow_udf *udf = NULL;
    if (argc != 3) return 2;
    config.library = argv[1];
    ring.total = strtoull(argv[2], NULL, 10);
    const uint64_t body = 1024 + 4096;
    for (int i = 0; i < BLOCKS; i++) memcpy(ring.memory[i] + 64, &body, sizeof body);
    if (dflow_udf_open(&config, &udf) || dflow_udf_wait(udf, DFLOW_UDF_LOADING, 60000000000) != DFLOW_UDF_READY) return 1;
    const double began = cpu();
    if (dflow_udf_start(udf)) return 1;
    for (int state = DFLOW_UDF_READY; state < DFLOW_UDF_FINISHED;) state = dflow_udf_wait(udf, state, 60000000000);
    printf("%.3f\n", (cpu() - began) * 1e6 / (double)ring.total);
    dflow_udf_close(udf);
    return 0;
}
