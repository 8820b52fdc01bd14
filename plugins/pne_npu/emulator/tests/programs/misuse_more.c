/* More misuses, chosen by the first argument; prints the code that the misused call gave. Arguments 2 and 3: a model of
 * two inputs and one output of 12 bytes, and one with batches of 1 and 2 rows of 16 bytes. */
#include <pthread.h>

#include "check.h"

#define SIZE 256

static aclrtStream stream;
static const char *plain_model, *batch_model;

static void nothing(void *data) { (void)data; }

static int context_twice(void) {
    aclrtContext context;
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtDestroyContext(context));
    return aclrtDestroyContext(context);
}

static int context_after_destroy(void) {
    aclrtContext context;
    OK(aclrtCreateContext(&context, 0));
    OK(aclrtDestroyContext(context));
    return aclrtSetCurrentContext(context);
}

static int default_context(void) {
    aclrtContext context;
    OK(aclrtGetCurrentContext(&context));
    return aclrtDestroyContext(context);
}

static int default_stream(void) {
    aclrtStream own;
    OK(aclrtCtxGetCurrentDefaultStream(&own));
    return aclrtDestroyStream(own);
}

static int foreign_handle(void) { return aclrtSynchronizeStream((aclrtStream)&stream); }

static int stream_twice(void) {
    OK(aclrtDestroyStream(stream));
    return aclrtDestroyStream(stream);
}

static int wrong_device(void) {
    void *block = device(SIZE), *host = pinned(SIZE);
    OK(aclrtSetDevice(1));
    return aclrtMemcpy(block, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE);
}

static int wrong_direction(void) {
    return aclrtMemcpy(device(SIZE), SIZE, pinned(SIZE), SIZE, ACL_MEMCPY_DEVICE_TO_HOST);
}

static int unaligned_async(void) {
    return aclrtMemcpyAsync(device(SIZE), SIZE - 8, (char *)pinned(SIZE) + 8, SIZE - 8, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

static int no_context_result;

static void *without_context(void *data) {
    void *made = NULL;
    (void)data;
    no_context_result = aclrtMalloc(&made, SIZE, ACL_MEM_MALLOC_HUGE_FIRST);
    return NULL;
}

static int no_context(void) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, without_context, NULL) == 0);
    pthread_join(thread, NULL);
    return no_context_result;
}

static int in_callback_result;

static void waits(void *data) {
    (void)data;
    in_callback_result = aclrtSynchronizeStream(stream);
}

static int sync_in_callback(void) {
    OK(aclrtLaunchHostFunc(stream, waits, NULL));
    OK(aclrtSynchronizeStream(stream));
    return in_callback_result;
}

/* The one that serves the stream's callbacks never does; the watchdog says so, and goes on. */
static int no_poller(void) {
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    OK(aclrtLaunchCallback(nothing, NULL, ACL_CALLBACK_BLOCK, stream));
    const int code = aclrtSynchronizeStreamWithTimeout(stream, 300);
    OK(aclrtProcessReport(1000));
    OK(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    return code;
}

static int destroyed_subscribed(void) {
    OK(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    return aclrtDestroyStream(stream);
}

static uint32_t load(const char *path) {
    uint32_t id = 0;
    OK(aclmdlLoadFromFile(path, &id));
    return id;
}

static aclmdlDataset *of(int count, size_t size) {
    aclmdlDataset *made = aclmdlCreateDataset();
    for (int i = 0; i < count; ++i) OK(aclmdlAddDatasetBuffer(made, aclCreateDataBuffer(device(SIZE), size)));
    return made;
}

static int concurrent_execute(void) {
    const uint32_t id = load(plain_model);
    aclmdlDataset *inputs = of(2, 12), *outputs[] = {of(1, 12), of(1, 12)};
    aclrtStream other;
    OK(aclrtCreateStream(&other));
    OK(aclmdlExecuteAsync(id, inputs, outputs[0], stream));
    OK(aclmdlExecuteAsync(id, inputs, outputs[1], other));
    const int first = aclrtSynchronizeStream(stream), second = aclrtSynchronizeStream(other);
    return first != 0 ? first : second;
}

static int unloaded_in_flight(void) {
    const uint32_t id = load(plain_model);
    OK(aclmdlExecuteAsync(id, of(2, 12), of(1, 12), stream));
    const int code = aclmdlUnload(id);
    OK(aclrtSynchronizeStream(stream));
    return code;
}

static int foreign_dataset(void) {
    const uint32_t one = load(batch_model), other = load(batch_model);
    aclmdlDataset *inputs = of(3, 64), *outputs = of(1, 64);
    OK(aclmdlSetDynamicBatchSize(one, inputs, 2, 1));
    return aclmdlExecute(other, inputs, outputs);
}

static int model_on_device(void) { return aclmdlLoadFromMem(device(SIZE), SIZE, &(uint32_t){0}); }

static int dataset_after_destroy(void) {
    const uint32_t id = load(plain_model);
    aclmdlDataset *inputs = of(2, 12), *outputs = of(1, 12);
    OK(aclmdlDestroyDataset(outputs));
    return aclmdlExecute(id, inputs, outputs);
}

/* Descs that came from a dataset are gone after a run of a model with several sizes. */
static int borrowed(void) {
    const uint32_t id = load(batch_model);
    aclmdlDataset *inputs = of(3, 64), *outputs = of(1, 64);
    OK(aclmdlExecute(id, inputs, outputs));
    aclTensorDesc *desc = aclmdlGetDatasetTensorDesc(outputs, 0);
    EXPECT(desc != NULL);
    OK(aclmdlExecute(id, inputs, outputs));
    return aclGetTensorDescNumDims(desc) == 0 ? 0 : 1;
}

static int borrowed_destroyed(void) {
    const uint32_t id = load(batch_model);
    aclmdlDataset *inputs = of(3, 64), *outputs = of(1, 64);
    OK(aclmdlExecute(id, inputs, outputs));
    aclDestroyTensorDesc(aclmdlGetDatasetTensorDesc(outputs, 0));
    return 0;
}

static int text_kept_too_long(void) {
    aclrtStream none = NULL;
    CODE(100000, aclrtDestroyStream(none));
    const char *text = aclGetRecentErrMsg();
    EXPECT(text != NULL);
    char *before = strdup(text);
    CODE(107000, aclrtSynchronizeStreamWithTimeout(stream, 0));
    const char *again = aclGetRecentErrMsg();
    EXPECT(again != NULL && strcmp(again, before) != 0 && aclGetRecentErrMsg() == NULL);
    free(before);
    return 0;
}

int main(int argc, char **argv) {
    EXPECT(argc > 3);
    plain_model = argv[2];
    batch_model = argv[3];
    start();
    OK(aclrtCreateStream(&stream));
    const struct { const char *name; int (*run)(void); } all[] = {
        {"context-twice", context_twice}, {"context-after-destroy", context_after_destroy},
        {"default-context", default_context}, {"default-stream", default_stream}, {"foreign-handle", foreign_handle},
        {"stream-twice", stream_twice}, {"wrong-device", wrong_device}, {"wrong-direction", wrong_direction},
        {"unaligned-async", unaligned_async}, {"no-context", no_context}, {"sync-in-callback", sync_in_callback},
        {"no-poller", no_poller}, {"destroyed-subscribed", destroyed_subscribed},
        {"concurrent-execute", concurrent_execute}, {"unloaded-in-flight", unloaded_in_flight},
        {"foreign-dataset", foreign_dataset}, {"device-pointer", model_on_device},
        {"dataset-after-destroy", dataset_after_destroy}, {"stale-desc", borrowed},
        {"borrowed-destroyed", borrowed_destroyed}, {"text-kept", text_kept_too_long},
    };
    int code = -1;
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        if (strcmp(all[i].name, argv[1]) == 0) code = all[i].run();
    }
    printf("%d\n", code);
    return code == -1;
}
