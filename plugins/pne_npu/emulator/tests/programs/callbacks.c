/* Callbacks: run by the subscribed thread in aclrtProcessReport, and host functions by the library. */
#include <pthread.h>
#include <stdatomic.h>

#include "check.h"

static atomic_int ran, stop;
static pthread_t poller;

static void note(void *data) {
    EXPECT(pthread_equal(pthread_self(), poller));
    atomic_fetch_add(&ran, *(int *)data);
}

static void noted(void *data) { atomic_fetch_add(&ran, *(int *)data); }

static void waits(void *stream) { CODE(507000, aclrtSynchronizeStream(stream)); }

static void *poll(void *context) {
    OK(aclrtSetCurrentContext(context));
    while (!atomic_load(&stop)) {
        const int code = aclrtProcessReport(20);
        EXPECT(code == 0 || code == 507012 || code == 107012);
    }
    return NULL;
}

int main(void) {
    start();
    aclrtContext context;
    aclrtStream stream, second;
    OK(aclrtGetCurrentContext(&context));
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStream(&second));
    int one = 1;
    CODE(100000, aclrtProcessReport(0));
    CODE(107012, aclrtProcessReport(10));
    CODE(107015, aclrtLaunchCallback(note, &one, ACL_CALLBACK_BLOCK, stream));
    EXPECT(pthread_create(&poller, NULL, poll, context) == 0);
    const uint64_t id = (uint64_t)poller;
    OK(aclrtSubscribeReport(id, stream));
    CODE(107011, aclrtSubscribeReport(id, stream));
    CODE(100000, aclrtLaunchCallback(note, &one, (aclrtCallbackBlockType)5, stream));
    CODE(107000, aclrtLaunchCallback(NULL, &one, ACL_CALLBACK_BLOCK, stream));
    void *block = device(64);
    for (int i = 0; i < 20; ++i) {
        OK(aclrtMemsetAsync(block, 64, i, 64, stream));
        OK(aclrtLaunchCallback(note, &one, i % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, stream));
    }
    OK(aclrtLaunchCallback(waits, stream, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(atomic_load(&ran) == 20);
    CODE(107011, aclrtLaunchHostFunc(stream, noted, &one));
    OK(aclrtLaunchHostFunc(second, noted, &one));
    OK(aclrtSynchronizeStream(second));
    EXPECT(atomic_load(&ran) == 21);
    atomic_store(&stop, 1);
    EXPECT(pthread_join(poller, NULL) == 0);
    CODE(107012, aclrtUnSubscribeReport(id + 1, stream));
    OK(aclrtUnSubscribeReport(id, stream));
    CODE(107011, aclrtUnSubscribeReport(id, stream));
    OK(aclrtFree(block));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(second));
    finish();
    return 0;
}
