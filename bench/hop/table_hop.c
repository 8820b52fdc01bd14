/* Messages by the native table of a transport (`dflow/transport.h`), without Python: one process sends, one receives. */
#include <string.h>
#include <time.h>

#include "dflow/transport.h"

#define SLICE 100000000ll
enum { GO_ON = 0, START = 1, LAST = 2, WARM = 3 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int send_one(const dflow_transport *t, uint32_t queue, uint64_t size, uint8_t mark) {
    dflow_block_view view;
    int64_t block = t->allocate(t->context, size, SLICE);
    if (block < 0 || t->view(t->context, block, &view)) return -1;
    ((uint8_t *)view.head)[0] = mark;
    ((uint8_t *)view.head)[view.size - 1] = 1;
    int rc;
    while ((rc = t->enqueue(t->context, queue, block, SLICE)) == DFLOW_E_TIMEOUT)
        ;
    return rc;
}

/* Send for `warm` seconds, then for `secs`; 0 if all went well. */
int produce(const dflow_transport *t, uint32_t queue, uint64_t size, double warm, double secs) {
    double start = now();
    int phase = WARM, rc = 0;
    for (unsigned i = 0; !rc; i++) {
        uint8_t mark = GO_ON;
        if (i % 64 == 0) {
            double gone = now() - start;
            if (phase == WARM && gone > warm) mark = START, phase = START;
            else if (phase == START && gone > warm + secs) break;
        }
        rc = send_one(t, queue, size, mark);
    }
    return rc ? rc : send_one(t, queue, size, LAST);
}

/* Receive until the last; messages a second. */
double consume(const dflow_transport *t, uint32_t queue) {
    double start = 0;
    uint64_t count = 0;
    for (;;) {
        dflow_block_view view;
        int64_t block = t->dequeue(t->context, queue, SLICE);
        if (block == DFLOW_E_TIMEOUT) continue;
        if (block < 0 || t->view(t->context, block, &view)) return -1;
        uint8_t mark = ((uint8_t *)view.head)[0], last = ((uint8_t *)view.head)[view.size - 1];
        if (t->release(t->context, block) || last != 1) return -1;
        count++;
        if (mark == START) start = now(), count = 0;
        if (mark == LAST) return (double)count / (now() - start);
    }
}
