/* Streams and events: order, waiting, time limits, handles that are gone. The first task of a stream is slow. */
#include "check.h"

#define SIZE 4096

static void orders(void) {
    aclrtStream stream, other;
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateStreamWithConfig(&other, 0, ACL_STREAM_FAST_LAUNCH));
    unsigned char *host = pinned(SIZE);
    void *device_block = device(SIZE);
    aclrtEvent event;
    OK(aclrtCreateEvent(&event));
    OK(aclrtMemsetAsync(device_block, SIZE, 7, SIZE, stream));
    OK(aclrtRecordEvent(event, stream));
    OK(aclrtStreamWaitEvent(other, event));
    OK(aclrtMemcpyAsync(host, SIZE, device_block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, other));
    aclrtStreamStatus status;
    OK(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_NOT_READY && host[0] != 7);
    CODE(507046, aclrtSynchronizeStreamWithTimeout(stream, 1));
    CODE(107000, aclrtSynchronizeStreamWithTimeout(stream, 0));
    CODE(107000, aclrtSynchronizeStreamWithTimeout(stream, -2));
    OK(aclrtSynchronizeStream(other));
    EXPECT(host[0] == 7 && host[SIZE - 1] == 7);
    OK(aclrtStreamQuery(stream, &status));
    EXPECT(status == ACL_STREAM_STATUS_COMPLETE);
    OK(aclrtSynchronizeStreamWithTimeout(NULL, 1000));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(stream));
    OK(aclrtDestroyStream(other));
    OK(aclrtFreeHost(host));
    OK(aclrtFree(device_block));
}

static void events(void) {
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    aclrtEvent begin, end, plain;
    OK(aclrtCreateEvent(&begin));
    OK(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
    OK(aclrtCreateEventWithFlag(&plain, ACL_EVENT_SYNC));
    CODE(107000, aclrtCreateEventWithFlag(&end, 0));
    CODE(107000, aclrtCreateEventWithFlag(&end, ACL_EVENT_EXTERNAL | ACL_EVENT_SYNC));
    aclrtEventRecordedStatus status;
    OK(aclrtQueryEventStatus(begin, &status));
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_NOT_READY);
    OK(aclrtSynchronizeEvent(begin));
    float ms = -1;
    CODE(507000, aclrtEventElapsedTime(&ms, begin, end));
    OK(aclrtRecordEvent(begin, stream));
    OK(aclrtRecordEvent(end, stream));
    OK(aclrtRecordEvent(plain, stream));
    OK(aclrtSynchronizeEvent(end));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtQueryEventStatus(begin, &status));
    EXPECT(status == ACL_EVENT_RECORDED_STATUS_COMPLETE);
    OK(aclrtEventElapsedTime(&ms, begin, end));
    EXPECT(ms >= 0 && ms < 60000);
    OK(aclrtEventElapsedTime(&ms, end, begin));
    EXPECT(ms <= 0);
    CODE(207000, aclrtEventElapsedTime(&ms, plain, end));
    OK(aclrtDestroyEvent(begin));
    OK(aclrtDestroyEvent(end));
    OK(aclrtDestroyEvent(plain));
    OK(aclrtDestroyStream(stream));
}

int main(void) {
    start();
    orders();
    events();
    finish();
    return 0;
}
