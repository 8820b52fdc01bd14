/* Make, join and leave a group. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "group.h"
#include "layout.h"

_Thread_local int dshm_errno;
_Atomic unsigned dshm_fork_gen;

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void count_fork(void) { atomic_fetch_add(&dshm_fork_gen, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

int dshm_last_errno(void) { return dshm_errno; }
int dshm_fd(const struct dshm *h) { return h->fd; }
int dshm_member(const struct dshm *h) { return (int)h->member; }
int dshm_is_owner(const struct dshm *h) { return h->owner; }

/* For tests: stop or kill this process when it gets to a place (fault.h) for the time after `skip` times. */
void dshm_fault_at(struct dshm *h, int where, int how, uint32_t skip) {
    atomic_store(&h->fault_skip, skip);
    atomic_store(&h->fault_how, how);
    atomic_store(&h->fault, where);
}

void dshm_fault(struct dshm *h, int where) {
    (void)where;
    if (atomic_load(&h->fault_skip)) {
        atomic_fetch_sub(&h->fault_skip, 1);
        return;
    }
    atomic_store(&h->fault, DSHM_STOP_NONE);
    kill(getpid(), atomic_load(&h->fault_how) == DSHM_FAULT_KILL ? SIGKILL : SIGSTOP);
}

static int fail(void) {
    dshm_errno = errno;
    return DSHM_E_SYSTEM;
}

/* Start time of a process in clock ticks, 0 if unknown; `*dead` if it is gone or a zombie without threads. */
uint64_t process_start(uint32_t pid, int *dead) {
    char path[40], text[1024];
    unsigned long long start = 0;
    long threads = 0;
    char state = '?';
    *dead = kill((pid_t)pid, 0) != 0 && errno == ESRCH;
    if (*dead) return 0;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 0;
    text[n] = 0;
    char *after = strrchr(text, ')');
    if (!after || sscanf(after + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                         &state, &threads, &start) != 3)
        return 0;
    *dead = (state == 'Z' || state == 'X') && threads <= 1;
    return start;
}

int dshm_enter(struct dshm *h) {
    if (__builtin_expect(is_forked(h), 0)) return DSHM_E_FORKED;
    atomic_fetch_add(&h->refs, 1);
    if (__builtin_expect(!atomic_load(&h->closed), 1)) return DSHM_OK;
    dshm_leave(h);
    return DSHM_E_GROUP_CLOSED;
}

static void close_fd(struct dshm *h) {
    int fd = atomic_exchange(&h->fd, -1);
    if (fd >= 0) close(fd);
}

static void unmap(struct dshm *h) {
    if (h->base) munmap(h->base, h->hd->total);
    h->base = NULL;
    close_fd(h);
    free((void *)h->seen);
    h->seen = NULL;
    magazine_free(h);
}

void dshm_leave(struct dshm *h) {
    if (atomic_fetch_sub(&h->refs, 1) != 1) return;
    if (atomic_exchange(&h->gone, 1)) return;
    if (h->base && h->member != NIL && !dshm_lock(h)) {
        member_clear(h, h->member);
        dshm_unlock(h);
    }
    unmap(h);
}

static uint64_t place(uint64_t *at, uint64_t bytes, uint64_t align) {
    uint64_t start = (*at + align - 1) / align * align;
    *at = start + bytes;
    return start;
}

static void plan(struct header *hd) {
    uint64_t at = sizeof *hd, page = 1ull << hd->gran_shift, pages;
    hd->max_order = 0;
    while ((page << hd->max_order) < hd->limit) hd->max_order++;
    hd->max_order += 2; /* addresses cost nothing, and blocks of unequal sizes leave gaps between them */
    hd->data_size = page << hd->max_order;
    pages = 1ull << hd->max_order;
    hd->mask_words = hd->max_members * 16 / 64 < 16 ? 16 : hd->max_members * 16 / 64;
    if (hd->mask_words > 64) hd->mask_words = 64;
    hd->n_bells = hd->mask_words * 64;
    hd->members_at = place(&at, sizeof(struct member) * hd->max_members, LINE);
    hd->bells_at = place(&at, sizeof(struct bell) * hd->n_bells, LINE);
    hd->queues_at = place(&at, sizeof(struct queue) * hd->max_queues, LINE);
    hd->masks_at = place(&at, 16ull * hd->mask_words * (hd->max_queues + 1), LINE);
    hd->slots_at = place(&at, sizeof(struct slot) * SLOT_POOL, LINE);
    hd->mark_words = ((hd->max_blocks + 63) / 64 + (hd->max_blocks + 4095) / 4096 + 7) & ~7u;
    hd->marks_at = place(&at, 8ull * hd->mark_words * hd->max_members, LINE);
    hd->max_boards = hd->max_queues + BOARDS_MORE;
    hd->boards_at = place(&at, sizeof(struct board) * hd->max_boards, LINE);
    hd->words_at = place(&at, 8ull * BOARD_POOL, page);
    hd->blocks_at = place(&at, sizeof(struct block) * hd->max_blocks, LINE);
    hd->holds_at = place(&at, sizeof(struct hold) * hd->max_blocks * hd->max_members, LINE);
    hd->backed_at = place(&at, pages / 8 + 8, page);
    hd->chunks_at = place(&at, sizeof(struct chunk) * pages, page);
    hd->data_at = place(&at, hd->data_size, 2ull << 20);
    hd->total = at;
}

static int view(struct dshm *h) {
    struct header *hd = h->hd = (struct header *)(void *)h->base;
    h->members = (struct member *)(void *)(h->base + hd->members_at);
    h->holds = (struct hold *)(void *)(h->base + hd->holds_at);
    h->blocks = (struct block *)(void *)(h->base + hd->blocks_at);
    h->chunks = (struct chunk *)(void *)(h->base + hd->chunks_at);
    h->backed = (_Atomic uint64_t *)(void *)(h->base + hd->backed_at);
    h->queues = (struct queue *)(void *)(h->base + hd->queues_at);
    h->slots = (struct slot *)(void *)(h->base + hd->slots_at);
    h->masks = (_Atomic uint64_t *)(void *)(h->base + hd->masks_at);
    h->marks = (_Atomic uint64_t *)(void *)(h->base + hd->marks_at);
    h->boards = (struct board *)(void *)(h->base + hd->boards_at);
    h->words = (uint64_t *)(void *)(h->base + hd->words_at);
    h->bells = (struct bell *)(void *)(h->base + hd->bells_at);
    h->data = h->base + hd->data_at;
    h->gran_shift = hd->gran_shift;
    h->mask_words = hd->mask_words;
    h->seen = calloc((hd->data_size >> hd->gran_shift) / 64 + 1, 8);
    return h->seen ? DSHM_OK : DSHM_E_SYSTEM;
}

static int map(struct dshm *h, uint64_t total) {
    void *p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, h->fd, 0);
    if (p == MAP_FAILED) return fail();
    h->base = p;
    return DSHM_OK;
}

static struct dshm *handle_new(void) {
    pthread_once(&fork_once, watch_forks);
    struct dshm *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->fd = -1;
    h->member = NIL;
    atomic_store(&h->refs, 1);
    h->fork_gen = atomic_load(&dshm_fork_gen);
    pthread_mutex_init(&h->own, NULL);
    return h;
}

/* Take a member slot. Those of dead processes are left for `reclaim`, which tells what they held. */
static int join(struct dshm *h, const char *label) {
    int rc = dshm_lock(h), dead;
    if (rc) return rc;
    uint32_t m = 0;
    while (m < h->hd->max_members && get32(&h->members[m].state) != MEMBER_FREE) m++;
    if (m == h->hd->max_members) rc = DSHM_E_TABLE;
    else {
        struct member *me = h->members + m;
        me->pid = (uint32_t)getpid();
        me->start = process_start(me->pid, &dead);
        memset(me->label, 0, sizeof me->label);
        strncpy(me->label, label, sizeof me->label - 1);
        h->member = m;
        h->me = me;
        h->mine = hold_of(h, m, 0);
        STEP();
        put32(&me->state, MEMBER_LIVE);
    }
    dshm_unlock(h);
    return rc;
}

static int build(struct dshm *h, const struct header *want) {
    h->fd = memfd_create("dflow", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (h->fd < 0 || ftruncate(h->fd, (off_t)want->total)) return fail();
    if (fcntl(h->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) return fail();
    int rc = map(h, want->total);
    if (rc) return rc;
    memcpy(h->base, want, sizeof *want);
    rc = view(h);
    if (!rc) rc = lock_init(&h->hd->lock);
    if (rc) return rc;
    struct header *hd = h->hd;
    hd->block_free = hd->bell_free = NIL;
    for (uint32_t k = 0; k < ORDERS; k++) hd->warm[k] = hd->cold[k] = NIL;
    for (uint32_t b = hd->max_blocks; b-- > 0;) {
        h->blocks[b].next = hd->block_free;
        hd->block_free = b;
    }
    bells_rebuild(h);
    h->chunks[0].next = NIL;
    hd->cold[hd->max_order] = 0;
    h->owner = 1;
    rc = join(h, "owner");
    hd->magic = DSHM_MAGIC;
    return rc;
}

int dshm_create(uint64_t memory_limit, uint32_t max_blocks, uint32_t max_members, uint32_t max_queues,
                uint32_t spin_us, uint64_t id, struct dshm **out) {
    struct header want;
    memset(&want, 0, sizeof want);
    want.version = DSHM_VERSION;
    want.id = id;
    want.gran_shift = (uint32_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    uint64_t page = 1ull << want.gran_shift;
    want.limit = (memory_limit + page - 1) / page * page;
    want.max_blocks = max_blocks;
    want.max_members = max_members;
    want.max_queues = max_queues;
    want.spin_ns = spin_us * 1000ull;
    if (!max_blocks || max_blocks > KEY_MASK || !max_members || max_members > MEMBERS_MOST || !max_queues || !memory_limit ||
        memory_limit > 1ull << 46)
        return DSHM_E_TOO_BIG;
    plan(&want);
    struct dshm *h = handle_new();
    if (!h) return DSHM_E_SYSTEM;
    int rc = build(h, &want);
    if (rc) {
        dshm_close(h);
        dshm_free(h);
        return rc;
    }
    *out = h;
    return DSHM_OK;
}

static int open_group(struct dshm *h, int fd, uint64_t id, const char *label) {
    struct header peek;
    struct stat st;
    h->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (h->fd < 0 || fstat(h->fd, &st)) return fail();
    if (pread(h->fd, &peek, sizeof peek, 0) != (ssize_t)sizeof peek) return DSHM_E_FORMAT;
    if (peek.magic != DSHM_MAGIC || peek.version != DSHM_VERSION || peek.id != id ||
        peek.total != (uint64_t)st.st_size || peek.gran_shift != (uint32_t)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE)))
        return DSHM_E_FORMAT;
    int rc = map(h, peek.total);
    if (!rc) rc = view(h);
    return rc ? rc : join(h, label);
}

int dshm_attach(int fd, uint64_t id, const char *label, struct dshm **out) {
    struct dshm *h = handle_new();
    if (!h) return DSHM_E_SYSTEM;
    int rc = open_group(h, fd, id, label);
    if (rc) {
        dshm_close(h);
        dshm_free(h);
        return rc;
    }
    *out = h;
    return DSHM_OK;
}

/* Leave: blocks that are still used keep the mapping and the member until the last of them is released. */
void dshm_close(struct dshm *h) {
    if (is_forked(h) || atomic_load(&h->closed)) return;
    if (h->base && h->member != NIL) {
        if (h->owner)
            for (uint32_t q = 0; q < get32(&h->hd->n_queues); q++) dshm_queue_close(h, q);
    }
    if (atomic_exchange(&h->closed, 1)) return;
    if (h->base && h->member != NIL) {
        put32(&h->me->state, MEMBER_LEAVING);
        for (uint32_t b = 0; b < h->hd->n_bells; b++)
            if (get32(&h->bells[b].owner) == h->member + 1) {
                struct wakes w = {1, {b}};
                bells_wake(h, &w);
            }
        if (!atomic_load(&h->needs_fd)) close_fd(h);
    }
    dshm_leave(h);
}

/* The handle itself goes when nothing in this process can name it any more; a forked child only unmaps. */
void dshm_free(struct dshm *h) {
    if (is_forked(h)) unmap(h);
    else dshm_close(h);
    if (!h->base) free(h);
}
