/* One memory group: blocks, queues, doorbells, boards and members in one anonymous shared region.
 *
 * Every function that can fail returns a negative code. Blocks are named by a key: the low 24 bits are the number of
 * the block's descriptor, the rest changes whenever the descriptor describes other memory, so a key stands for one
 * address and one size for ever. Waits are bounded by the caller (nanoseconds), so that it can look for signals. */
#ifndef DSHM_H
#define DSHM_H
#include <stdint.h>

enum dshm_code {
    DSHM_OK = 0,
    DSHM_E_TIMEOUT = -1,      /* nothing within the limit */
    DSHM_E_CLOSED = -2,       /* the queue is closed (and empty, for get) */
    DSHM_E_GROUP_CLOSED = -3, /* this member has left the group */
    DSHM_E_FORKED = -4,       /* a forked child used its parent's member */
    DSHM_E_BADREF = -5,       /* the caller does not hold this block */
    DSHM_E_SYSTEM = -6,       /* the system refused; see dshm_last_errno */
    DSHM_E_TABLE = -7,        /* a table of the group is full */
    DSHM_E_EXISTS = -8,       /* a queue of that name exists */
    DSHM_E_MISSING = -9,      /* there is none of that name or number */
    DSHM_E_FORMAT = -10,      /* the descriptor is not the group it should be */
    DSHM_E_TOO_BIG = -11,     /* can never fit into the group */
    DSHM_E_ALIVE = -12,       /* the process still lives */
    DSHM_E_BROKEN = -13,      /* a lock of the group cannot be recovered */
    DSHM_E_END = -14,         /* nothing more */
    DSHM_E_BUSY = -15,        /* only where `wait_ns` is DSHM_NOT_AT_ALL: somebody holds a lock */
    DSHM_E_STUCK = -16,       /* the lock of the group was not free for seconds: its holder is stopped */
};

/* As `wait_ns`: do not even wait for a lock that another process holds. */
enum { DSHM_NOT_AT_ALL = -1 };

enum dshm_overflow { DSHM_BLOCK = 0, DSHM_DROP_OLDEST, DSHM_DROP_NEWEST, DSHM_KEEP_LATEST, DSHM_MAX_AGE };

struct dshm;

struct dshm_use {
    uint32_t pid;
    uint32_t blocks;
    uint64_t bytes;
    char label[256];
};

struct dshm_queue_info {
    uint32_t depth, overflow, level, closed;
    uint64_t sent, delivered, dropped, failed;
    uint64_t bytes, oldest_age_ns, blocked_ns, waiting_ns;
    char name[256];
};

struct dshm_totals {
    uint64_t blocks_in_use, bytes_in_use, bytes_backed, memory_limit, repairs;
    uint32_t members, queues;
};

struct dshm_lost {
    int64_t key;      /* a block that the caller now holds instead of the dead member */
    int32_t queue;    /* queue it was taken from, -1 if none */
    uint32_t cursor;  /* where to go on; 0 at first */
};

int dshm_create(uint64_t memory_limit, uint32_t max_blocks, uint32_t max_members, uint32_t max_queues,
                uint32_t spin_us, uint64_t id, struct dshm **out);
int dshm_attach(int fd, uint64_t id, const char *label, struct dshm **out);
void dshm_close(struct dshm *h);
void dshm_free(struct dshm *h);
int dshm_fd(const struct dshm *h);
int dshm_member(const struct dshm *h);
int dshm_is_owner(const struct dshm *h);
int dshm_last_errno(void);
void dshm_fault_at(struct dshm *h, int where, int how, uint32_t skip);

int64_t dshm_alloc(struct dshm *h, uint64_t size, int64_t wait_ns);
int dshm_block_info(struct dshm *h, int64_t key, uint64_t *address, uint64_t *size);
int dshm_retain(struct dshm *h, int64_t key);
int dshm_release(struct dshm *h, int64_t key);
int64_t dshm_trim(struct dshm *h);

int dshm_queue_create(struct dshm *h, const char *name, uint32_t depth, int overflow, uint64_t max_age_ns,
                      uint64_t start);
int dshm_queue_find(struct dshm *h, const char *name);
int dshm_put(struct dshm *h, uint32_t queue, int64_t key, int64_t wait_ns);
int64_t dshm_get(struct dshm *h, uint32_t queue, int64_t wait_ns);
int64_t dshm_take_dropped(struct dshm *h, uint32_t queue);
int64_t dshm_level(struct dshm *h, uint32_t queue);
int dshm_queue_close(struct dshm *h, uint32_t queue);

int dshm_bell_take(struct dshm *h);
int dshm_bell_drop(struct dshm *h, uint32_t bell);
int dshm_bell_ring(struct dshm *h, uint32_t bell);
int dshm_bell_wait(struct dshm *h, uint32_t bell, const uint32_t *readable, uint32_t n_readable,
                   const uint32_t *writable, uint32_t n_writable, int64_t wait_ns);

int dshm_board(struct dshm *h, const char *name, uint32_t words, uint64_t *address);
void dshm_unpin(struct dshm *h);

int dshm_totals(struct dshm *h, struct dshm_totals *out);
int dshm_member_use(struct dshm *h, uint32_t member, struct dshm_use *out);
int dshm_queue_info(struct dshm *h, uint32_t queue, struct dshm_queue_info *out);

int dshm_reclaim_find(struct dshm *h, uint32_t pid);
int dshm_reclaim_next(struct dshm *h, uint32_t member, struct dshm_lost *lost);

const void *dshm_native_table(struct dshm *h);
const void *dshm_calls(void);
#endif
