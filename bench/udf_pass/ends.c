/* The ends around a node, and what a node costs at least: source, relay and sink through the table of a transport. */
#include <string.h>
#include <time.h>

#include "dflow/transport.h"

#define SLICE 100000000ll

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A float tensor of `size` bytes with its head and descriptor, as dflow_core/message writes them. */
static void fill(const dflow_block_view *view, uint64_t trans_id, uint64_t size) {
    unsigned char *head = view->head, *desc = view->data;
    uint64_t body = 1024 + size, rank = 1, dim = size / 4, format = 3;
    memset(head + 64, 0, 192);
    memcpy(head + 64, &body, 8);
    memcpy(head + 192, &trans_id, 8);
    memcpy(head + 240, &trans_id, 8); /* any token: the sink does not add them up */
    memset(desc, 0, 1024);
    memcpy(desc + 24, &rank, 8);
    memcpy(desc + 32, &dim, 8);
    memcpy(desc + 552, &format, 8);
    memcpy(desc + 568, &size, 8);
}

/* Send messages and close the queue. */
int source(const dflow_transport *t, uint32_t queue, uint64_t count, uint64_t size) {
    for (uint64_t i = 1; i <= count; i++) {
        dflow_block_view view;
        int64_t block = t->allocate(t->context, 256 + 1024 + size, 30 * SLICE);
        if (block < 0 || t->view(t->context, block, &view)) return -1;
        fill(&view, i, size);
        int rc;
        while ((rc = t->enqueue(t->context, queue, block, SLICE)) == DFLOW_E_TIMEOUT)
            ;
        if (rc) return rc;
    }
    return t->close(t->context, queue);
}

/* Pass on what comes, until the queue is closed, and work for `busy` seconds on each. */
int relay(const dflow_transport *t, uint32_t from, uint32_t to, double busy) {
    for (;;) {
        int64_t block = t->dequeue(t->context, from, SLICE);
        if (block == DFLOW_E_TIMEOUT) continue;
        if (block == DFLOW_E_CLOSED) return t->close(t->context, to);
        if (block < 0) return (int)block;
        if (busy > 0)
            for (double until = now() + busy; now() < until;)
                ;
        int rc;
        while ((rc = t->enqueue(t->context, to, block, SLICE)) == DFLOW_E_TIMEOUT)
            ;
        if (rc) return rc;
    }
}

/* Take `count` messages; messages a second between the first and the last. */
double sink(const dflow_transport *t, uint32_t queue, uint64_t count) {
    double start = 0;
    for (uint64_t i = 0; i < count;) {
        dflow_block_view view;
        int64_t block = t->dequeue(t->context, queue, SLICE);
        if (block == DFLOW_E_TIMEOUT) continue;
        if (block < 0 || t->view(t->context, block, &view) || t->release(t->context, block)) return -1;
        if (i++ == 0) start = now();
    }
    return (double)(count - 1) / (now() - start);
}
