/* One misuse each, chosen by the first argument; prints the code that the misused call gave. Argument 2: a model. */
#include "check.h"

#define SIZE 256

static aclrtStream stream;

static int double_free(void) {
    void *block = device(SIZE);
    OK(aclrtFree(block));
    return aclrtFree(block);
}

static int foreign_free(void) { return aclrtFree(malloc(SIZE)); }
static int interior_free(void) { return aclrtFree((char *)device(SIZE) + 64); }
static int wrong_free(void) { return aclrtFreeHost(device(SIZE)); }

static int host_pointer(void) {
    static char target[SIZE], source[SIZE];
    return aclrtMemcpy(target, SIZE, source, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
}

static int use_after_free(void) {
    static char source[SIZE];
    void *block = device(SIZE);
    OK(aclrtFree(block));
    return aclrtMemcpy(block, SIZE, source, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
}

static int out_of_bounds(void) {
    static char source[2 * SIZE];
    return aclrtMemcpy(device(SIZE), 2 * SIZE, source, 2 * SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
}

static int use_after_destroy(void) {
    OK(aclrtDestroyStream(stream));
    return aclrtSynchronizeStream(stream);
}

static int wrong_context(void) {
    aclrtContext other;
    OK(aclrtCreateContext(&other, 0));
    aclrtEvent event;
    OK(aclrtCreateEvent(&event));
    return aclrtRecordEvent(event, stream);
}

static int freed_in_flight(void) {
    void *block = device(SIZE);
    OK(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
    OK(aclrtMemsetAsync(block, SIZE, 2, SIZE, stream));
    OK(aclrtFree(block));
    return aclrtSynchronizeStream(stream);
}

static int changed_in_flight(void) {
    char *host = pinned(SIZE);
    void *block = device(SIZE), *other = device(SIZE);
    memset(host, 1, SIZE);
    OK(aclrtMemsetAsync(other, SIZE, 1, SIZE, stream));
    OK(aclrtMemcpyAsync(block, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    memset(host, 2, SIZE);
    return aclrtSynchronizeStream(stream);
}

static int destroyed_in_flight(void) {
    void *block = device(SIZE);
    OK(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
    OK(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
    return aclrtDestroyStreamForce(stream);
}

static int pageable_async(void) {
    static char source[SIZE];
    return aclrtMemcpyAsync(device(SIZE), SIZE, source, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

static int overrun(void) {
    char *host = pinned(SIZE);
    host[SIZE] = 1;
    return aclrtFreeHost(host);
}

static int host_access(void) {
    volatile char *block = device(SIZE);
    return block[3];
}

static int leak(void) {
    device(SIZE);
    aclmdlCreateDataset();
    return aclFinalize();
}

static uint32_t model(const char *path) {
    uint32_t id = 0;
    OK(aclmdlLoadFromFile(path, &id));
    return id;
}

static int host_in_dataset(const char *path) {
    static float memory[8];
    const uint32_t id = model(path);
    aclmdlDataset *inputs = one_buffer(memory, 12), *outputs = one_buffer(device(SIZE), 12);
    OK(aclmdlAddDatasetBuffer(inputs, aclCreateDataBuffer(memory, 12)));
    return aclmdlExecute(id, inputs, outputs);
}

static int use_after_unload(const char *path) {
    const uint32_t id = model(path);
    OK(aclmdlUnload(id));
    aclmdlDataset *inputs = one_buffer(device(SIZE), 12);
    return aclmdlExecute(id, inputs, inputs);
}

static int destroyed_buffer(const char *path) {
    const uint32_t id = model(path);
    aclmdlDataset *inputs = one_buffer(device(SIZE), 12), *outputs = one_buffer(device(SIZE), 12);
    aclDataBuffer *second = aclCreateDataBuffer(device(SIZE), 12);
    OK(aclmdlAddDatasetBuffer(inputs, second));
    OK(aclDestroyDataBuffer(second));
    return aclmdlExecute(id, inputs, outputs);
}

/* Results that are read before the stream was synchronised are poison. */
static int read_too_early(void) {
    unsigned char *host = pinned(SIZE);
    memset(host, 7, SIZE);
    void *block = device(SIZE);
    OK(aclrtMemset(block, SIZE, 9, SIZE));
    OK(aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    const int early = host[0];
    OK(aclrtSynchronizeStream(stream));
    EXPECT(host[0] == 9);
    return early;
}

int main(int argc, char **argv) {
    EXPECT(argc > 2);
    start();
    OK(aclrtCreateStream(&stream));
    const struct { const char *name; int (*run)(void); } plain[] = {
        {"double-free", double_free}, {"foreign-free", foreign_free}, {"interior-free", interior_free},
        {"wrong-free", wrong_free}, {"host-pointer", host_pointer}, {"use-after-free", use_after_free},
        {"out-of-bounds", out_of_bounds}, {"use-after-destroy", use_after_destroy}, {"wrong-context", wrong_context},
        {"freed-in-use", freed_in_flight}, {"changed-in-flight", changed_in_flight},
        {"destroyed-in-flight", destroyed_in_flight}, {"pageable-async", pageable_async}, {"overrun", overrun},
        {"host-access", host_access}, {"leak", leak}, {"read-too-early", read_too_early},
    };
    const struct { const char *name; int (*run)(const char *); } with_model[] = {
        {"host-in-dataset", host_in_dataset}, {"use-after-unload", use_after_unload},
        {"destroyed-buffer", destroyed_buffer},
    };
    int code = -1;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i) {
        if (strcmp(plain[i].name, argv[1]) == 0) code = plain[i].run();
    }
    for (size_t i = 0; i < sizeof with_model / sizeof *with_model; ++i) {
        if (strcmp(with_model[i].name, argv[1]) == 0) code = with_model[i].run(argv[2]);
    }
    printf("%d\n", code);
    return code == -1;
}
