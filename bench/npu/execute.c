/* Microseconds a run: OpenVINO's C interface alone, and the same model through the emulator.
 *
 * Arguments: the ONNX file (two float inputs of 3), the OM file, OpenVINO's C library, runs of a round.
 * Prints one line a round: alone, aclmdlExecute, aclmdlExecuteAsync and aclrtSynchronizeStream; then the same as time
 * of CPUs, which other work on the machine does not change. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "acl/acl.h"

#define BYTES 12
#define ROUNDS 9
#define MUST(call)                                     \
    do {                                               \
        if ((call) != 0) {                             \
            fprintf(stderr, "failed: %s\n", #call);    \
            exit(1);                                   \
        }                                              \
    } while (0)

static void *library;
static void *request;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) exit(2);
    return found;
}

static void open_alone(const char *model_path) {
    void *core = NULL, *model = NULL, *compiled = NULL;
    MUST(((int (*)(void **))find("ov_core_create"))(&core));
    MUST(((int (*)(void *, const char *, const char *, void **))find("ov_core_read_model"))(core, model_path, NULL,
            &model));
    MUST(((int (*)(void *, void *, const char *, size_t, void **, ...))find("ov_core_compile_model"))(
        core, model, "CPU", 8, &compiled, "INFERENCE_NUM_THREADS", "1", "NUM_STREAMS", "1", "INFERENCE_PRECISION_HINT",
                "f32",
        "PERFORMANCE_HINT", "LATENCY"));
    MUST(((int (*)(void *, void **))find("ov_compiled_model_create_infer_request"))(compiled, &request));
}

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static aclmdlDataset *dataset(int count) {
    aclmdlDataset *made = aclmdlCreateDataset();
    for (int i = 0; i < count; ++i) {
        void *memory = NULL;
        MUST(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
        MUST(aclrtMemset(memory, BYTES, 0, BYTES));
        MUST(aclmdlAddDatasetBuffer(made, aclCreateDataBuffer(memory, BYTES)));
    }
    return made;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    const int runs = atoi(argv[4]);
    library = dlopen(argv[3], RTLD_NOW);
    if (library == NULL) return 2;
    open_alone(argv[1]);
    int (*infer)(void *) = (int (*)(void *))find("ov_infer_request_infer");
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    uint32_t id = 0;
    MUST(aclmdlLoadFromFile(argv[2], &id));
    aclmdlDataset *inputs = dataset(2), *outputs = dataset(1);
    aclrtStream stream;
    MUST(aclrtCreateStream(&stream));
    for (int round = 0; round < ROUNDS; ++round) {
        double times[4], cpu[4];
        times[0] = now(CLOCK_MONOTONIC), cpu[0] = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < runs; ++i) MUST(infer(request));
        times[1] = now(CLOCK_MONOTONIC), cpu[1] = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < runs; ++i) MUST(aclmdlExecute(id, inputs, outputs));
        times[2] = now(CLOCK_MONOTONIC), cpu[2] = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < runs; ++i) {
            MUST(aclmdlExecuteAsync(id, inputs, outputs, stream));
            MUST(aclrtSynchronizeStream(stream));
        }
        times[3] = now(CLOCK_MONOTONIC), cpu[3] = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < 3; ++i) printf("%.3f ", (times[i + 1] - times[i]) / runs);
        for (int i = 0; i < 3; ++i) printf("%.3f ", (cpu[i + 1] - cpu[i]) / runs);
        printf("\n");
    }
    fflush(stdout);
    _Exit(0); /* nothing of the two libraries needs an orderly end */
}
