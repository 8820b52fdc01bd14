/* The machine has no memory when a block wants its pages: the call fails, nothing is lost, the group goes on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "dshm.h"

#define CHECK(what)                                                        \
    do {                                                                   \
        if (!(what)) {                                                     \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);     \
            abort();                                                       \
        }                                                                  \
    } while (0)

static int short_of_memory;

int __real_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice);

int __wrap_madvise(void *start, size_t bytes, int advice) {
    if (short_of_memory && advice != MADV_REMOVE) {
        errno = short_of_memory;
        return -1;
    }
    return __real_madvise(start, bytes, advice);
}

static struct dshm_totals totals(struct dshm *h) {
    struct dshm_totals out;
    CHECK(dshm_totals(h, &out) == DSHM_OK);
    return out;
}

int main(void) {
    struct dshm *h;
    CHECK(dshm_create(16 << 20, 64, 4, 4, 0, 1, &h) == DSHM_OK);
    int64_t small = dshm_alloc(h, 5000, 0);
    CHECK(small >= 0);
    struct dshm_totals before = totals(h);
    static const int errors[] = {ENOMEM, EFAULT, EHWPOISON};
    for (int i = 0; i < 300; i++) {
        short_of_memory = errors[i % 3];
        CHECK(dshm_alloc(h, 1 << 20, 0) == DSHM_E_SYSTEM && dshm_last_errno() == errors[i % 3]);
    }
    struct dshm_totals after = totals(h);
    CHECK(after.blocks_in_use == 1 && after.bytes_in_use == before.bytes_in_use);
    CHECK(after.bytes_backed == before.bytes_backed);
    short_of_memory = 0;
    int64_t large = dshm_alloc(h, 15 << 20, 0);
    CHECK(large >= 0);
    CHECK(dshm_release(h, large) == DSHM_OK && dshm_release(h, small) == DSHM_OK);
    CHECK(dshm_release(h, small) == DSHM_E_BADREF);
    CHECK(totals(h).blocks_in_use == 0);
    dshm_close(h);
    dshm_free(h);
    puts("fine");
    return 0;
}
