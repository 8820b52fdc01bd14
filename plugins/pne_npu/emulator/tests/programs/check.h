/* What the test programs share: checks that say where they failed, and a model on a device. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define EXPECT(condition)                                                         \
    do {                                                                          \
        if (!(condition)) {                                                       \
            const char *text_ = aclGetRecentErrMsg();                             \
            printf("%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, text_ ? text_ : ""); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

#define CODE(wanted, call)                                                        \
    do {                                                                          \
        const int code_ = (call);                                                 \
        if (code_ != (wanted)) {                                                  \
            const char *text_ = aclGetRecentErrMsg();                             \
            printf("%s:%d: %s gave %d, not %d\n%s\n", __FILE__, __LINE__, #call, code_, (int)(wanted),      \
                   text_ ? text_ : "");                                           \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

#define OK(call) CODE(0, call)

static inline void start(void) {
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
}

static inline void finish(void) {
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
}

static inline void *device(size_t size) {
    void *made = NULL;
    OK(aclrtMalloc(&made, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return made;
}

static inline void *pinned(size_t size) {
    void *made = NULL;
    OK(aclrtMallocHost(&made, size));
    return made;
}

/* A dataset with one buffer. */
static inline aclmdlDataset *one_buffer(void *data, size_t size) {
    aclmdlDataset *made = aclmdlCreateDataset();
    OK(aclmdlAddDatasetBuffer(made, aclCreateDataBuffer(data, size)));
    return made;
}

static inline void drop_dataset(aclmdlDataset *dataset) {
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(dataset); ++i) {
        OK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(dataset, i)));
    }
    OK(aclmdlDestroyDataset(dataset));
}

#endif
