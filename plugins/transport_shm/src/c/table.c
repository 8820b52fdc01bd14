/* The group as native code sees it (`dflow/transport.h`), and the message path as the extension module calls it. */
#include <stdio.h>

#include "calls.h"
#include "layout.h"

_Static_assert((int)DFLOW_E_TIMEOUT == (int)DSHM_E_TIMEOUT && (int)DFLOW_E_CLOSED == (int)DSHM_E_CLOSED &&
               (int)DFLOW_E_GROUP_CLOSED == (int)DSHM_E_GROUP_CLOSED && (int)DFLOW_E_FORKED == (int)DSHM_E_FORKED &&
               (int)DFLOW_E_BAD_BLOCK == (int)DSHM_E_BADREF && (int)DFLOW_E_SYSTEM == (int)DSHM_E_SYSTEM &&
               (int)DFLOW_E_TABLE == (int)DSHM_E_TABLE && (int)DFLOW_E_MISSING == (int)DSHM_E_MISSING &&
               (int)DFLOW_E_TOO_BIG == (int)DSHM_E_TOO_BIG && (int)DFLOW_E_BROKEN == (int)DSHM_E_BROKEN,
               "the codes of both headers are the same");

static _Thread_local int last_code;

/* What the header does not know becomes what it knows. */
static int64_t told(int64_t code) {
    if (code < 0) last_code = (int)code;
    if (code == DSHM_E_STUCK) return DFLOW_E_BROKEN;
    if (code == DSHM_E_EXISTS || code == DSHM_E_BUSY) return DFLOW_E_TABLE;
    return code;
}

static int64_t limit(int64_t wait_ns) { return wait_ns < 0 ? 0 : wait_ns; }

static int64_t t_allocate(void *h, uint64_t size, int64_t wait_ns) { return told(dshm_alloc(h, size, limit(wait_ns))); }
static int t_retain(void *h, int64_t block) { return (int)told(dshm_retain(h, block)); }
static int t_release(void *h, int64_t block) { return (int)told(dshm_release(h, block)); }

static int t_view(void *h, int64_t block, dflow_block_view *out) {
    uint64_t address = 0, size = 0;
    int rc = dshm_block_info(h, block, &address, &size);
    if (rc) return (int)told(rc);
    out->head = (void *)(uintptr_t)address;
    out->data = size < DFLOW_HEAD_SIZE ? NULL : (uint8_t *)out->head + DFLOW_HEAD_SIZE;
    out->size = size;
    return DFLOW_OK;
}

static int64_t t_find(void *h, const char *name) { return told(dshm_queue_find(h, name)); }
static int t_enqueue(void *h, uint32_t queue, int64_t block, int64_t wait_ns) {
    return (int)told(dshm_put(h, queue, block, limit(wait_ns)));
}
static int64_t t_dequeue(void *h, uint32_t queue, int64_t wait_ns) { return told(dshm_get(h, queue, limit(wait_ns))); }
static int64_t t_dropped(void *h, uint32_t queue) { return told(dshm_take_dropped(h, queue)); }
static int64_t t_level(void *h, uint32_t queue) { return told(dshm_level(h, queue)); }
static int t_close(void *h, uint32_t queue) { return (int)told(dshm_queue_close(h, queue)); }

static int t_wait(void *context, const uint32_t *readable, uint32_t readable_count, const uint32_t *writable,
                  uint32_t writable_count, int64_t wait_ns) {
    struct dshm *h = context;
    int rc = dshm_enter(h);
    if (rc) return (int)told(rc);
    int bell = bell_borrow(h);
    rc = bell;
    if (bell >= 0) {
        put32(&h->bells[bell].keen, 1); /* a message for one of many queues must not be its only wake-up */
        rc = dshm_bell_wait(h, (uint32_t)bell, readable, readable_count, writable, writable_count, limit(wait_ns));
        put32(&h->bells[bell].keen, 0);
        bell_return(h, (uint32_t)bell);
    }
    dshm_leave(h);
    return (int)told(rc);
}

static int t_stats(void *h, uint32_t queue, dflow_queue_stats *out) {
    struct dshm_queue_info info;
    int rc = dshm_queue_info(h, queue, &info);
    if (rc) return (int)told(rc);
    *out = (dflow_queue_stats){info.depth, info.level, info.closed != 0, 0, info.sent, info.delivered, info.dropped,
                               info.failed, info.oldest_age_ns, info.blocked_ns, info.waiting_ns};
    return DFLOW_OK;
}

static const char *const WORDS[] = {
    "no error", "nothing within the limit", "the queue is closed", "this member has left the memory group",
    "the memory group was opened before the process forked", "this member does not hold the block",
    "the system refused memory", "a table of the memory group is full", "there is one of that name already",
    "the memory group has no such queue", "not the memory group it should be", "larger than all the memory of the group",
    "the process still lives", "a lock of the memory group cannot be recovered", "nothing more", "a lock is held",
    "a stopped process holds the lock of the memory group",
};

static const char *t_error(void *h) {
    static _Thread_local char text[128];
    (void)h;
    if (last_code != DSHM_E_SYSTEM) return WORDS[-last_code];
    char why[64] = "";
    snprintf(text, sizeof text, "%s: %s", WORDS[-last_code], strerror_r(dshm_errno, why, sizeof why));
    return text;
}

const void *dshm_native_table(struct dshm *h) {
    h->table = (dflow_transport){DFLOW_TRANSPORT_ABI, sizeof h->table, h, t_allocate, t_retain, t_release, t_view,
                                 t_find, t_enqueue, t_dequeue, t_dropped, t_level, t_close, t_wait, t_stats, t_error};
    return &h->table;
}

const void *dshm_calls(void) {
    static const struct dshm_calls calls = {dshm_alloc, dshm_block_info,   dshm_retain, dshm_release, dshm_put,
                                            dshm_get,   dshm_take_dropped, dshm_level,  dshm_unpin};
    return &calls;
}
