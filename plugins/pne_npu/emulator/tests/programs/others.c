/* What the other programs do not use: questions to devices, streams and events, other ways to allocate, descs. */
#include "check.h"

#define SIZE 256

static void system_facts(void) {
    char name[] = "runtime", text[ACL_PKG_VERSION_MAX_SIZE];
    int32_t number = -1;
    aclCANNPackageVersion version;
    OK(aclsysGetVersionStr(name, text));
    OK(aclsysGetVersionNum(name, &number));
    OK(aclsysGetCANNVersion(ACL_PKG_NAME_RUNTIME, &version));
    EXPECT(strcmp(text, version.version) == 0 && number >= 0);
    CODE(100000, aclsysGetVersionStr(NULL, text));
    aclAppLog(ACL_DEBUG, __func__, __FILE__, __LINE__, "%s", "nobody sees this");
    aclAppLog(ACL_ERROR, __func__, __FILE__, __LINE__, "seen %d", 7);
}

static void devices(void) {
    int64_t value = 0;
    uint32_t limit = 0, own = 0, flags = 9;
    int32_t least = 0, greatest = 0, active = 0, can = 1;
    aclrtDeviceStatus status;
    aclrtErrorInfo error;
    OK(aclrtSetTsDevice(ACL_TS_ID_AICORE));
    CODE(107000, aclrtSetTsDevice(ACL_TS_ID_RESERVED));
    OK(aclrtQueryDeviceStatus(0, &status));
    EXPECT(status == ACL_RT_DEVICE_STATUS_NORMAL);
    CODE(107001, aclrtQueryDeviceStatus(7, &status));
    OK(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value));
    EXPECT(value > 0);
    CODE(107001, aclrtGetDeviceInfo(7, ACL_DEV_ATTR_AICORE_CORE_NUM, &value));
    OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &limit));
    OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &own));
    EXPECT(limit > 0 && own == limit);
    OK(aclrtGetPrimaryCtxState(0, &flags, &active));
    EXPECT(flags == 0 && active == 1);
    OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(least == 7 && greatest == 0);
    OK(aclrtDeviceCanAccessPeer(&can, 0, 0));
    EXPECT(can == 0);
    CODE(207000, aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtGetErrorVerbose(0, &error));
    OK(aclrtSynchronizeDeviceWithTimeout(1000));
    CODE(107000, aclrtSynchronizeDeviceWithTimeout(0));
}

static void streams(void) {
    uint32_t before = 0, after = 0, priority = 0, flags = 0;
    int32_t id = -1;
    aclrtStream stream;
    OK(aclrtGetStreamAvailableNum(&before));
    OK(aclrtCreateStreamWithConfig(&stream, 3, ACL_STREAM_FAST_SYNC));
    OK(aclrtGetStreamAvailableNum(&after));
    OK(aclrtStreamGetId(stream, &id));
    OK(aclrtStreamGetPriority(stream, &priority));
    OK(aclrtStreamGetFlags(stream, &flags));
    EXPECT(after == before - 1 && id >= 0 && priority == 3 && flags == ACL_STREAM_FAST_SYNC);
    OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
    CODE(107000, aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE)); /* once */
    CODE(100000, aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE));
    OK(aclrtStreamAbort(stream));
    OK(aclrtSynchronizeStream(stream)); /* nothing was waiting */
    OK(aclrtDestroyStream(stream));
}

static void events(void) {
    aclrtEvent plain, extended;
    aclrtEventStatus status;
    aclrtEventWaitStatus waited;
    uint64_t first = 0, second = 0;
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    OK(aclrtCreateEventWithFlag(&plain, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    OK(aclrtCreateEventExWithFlag(&extended, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    CODE(507000, aclrtEventGetTimestamp(plain, &first));
    OK(aclrtRecordEvent(plain, stream));
    OK(aclrtStreamWaitEventWithTimeout(stream, plain, 5));
    OK(aclrtRecordEvent(extended, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtQueryEvent(plain, &status));
    OK(aclrtQueryEventWaitStatus(plain, &waited));
    EXPECT(status == ACL_EVENT_STATUS_COMPLETE && waited == ACL_EVENT_WAIT_STATUS_COMPLETE);
    OK(aclrtEventGetTimestamp(plain, &first));
    OK(aclrtEventGetTimestamp(extended, &second));
    EXPECT(second >= first);
    CODE(207000, aclrtQueryEvent(extended, &status));
    CODE(207000, aclrtQueryEventWaitStatus(extended, &waited));
    CODE(207000, aclrtResetEvent(extended, stream));
    OK(aclrtResetEvent(plain, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtDestroyEvent(plain));
    OK(aclrtDestroyEvent(extended));
    OK(aclrtDestroyStream(stream));
}

static void memory(void) {
    void *blocks[3], *mapped = NULL, *host = NULL;
    aclrtPtrAttributes facts;
    OK(aclrtMallocAlign32(&blocks[0], SIZE, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtMallocCached(&blocks[1], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocWithCfg(&blocks[2], SIZE, ACL_MEM_MALLOC_HUGE_FIRST, NULL));
    EXPECT(posix_memalign(&host, 4096, 4096) == 0);
    OK(aclrtHostRegister(host, 4096, ACL_HOST_REGISTER_MAPPED, &mapped));
    CODE(507910, aclrtHostRegister(host, 4096, ACL_HOST_REGISTER_MAPPED, &mapped));
    OK(aclrtPointerGetAttributes(host, &facts));
    EXPECT(facts.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    memset(host, 5, SIZE);
    /* Two rows of 64 bytes, 128 apart there and 64 apart here. */
    OK(aclrtMemcpy2dAsync(blocks[0], 128, host, 64, 64, 2, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CODE(100000, aclrtMemcpy2dAsync(blocks[0], 32, host, 64, 64, 2, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtMemcpy((char *)host + 1024, SIZE, blocks[0], 192, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(((char *)host)[1024 + 63] == 5 && ((char *)host)[1024 + 128 + 63] == 5);
    OK(aclrtDestroyStream(stream));
    OK(aclrtHostUnregister(host));
    CODE(507911, aclrtHostUnregister(host));
    for (int i = 0; i < 3; ++i) OK(aclrtFreeWithDevSync(blocks[i]));
    free(host);
}

static void descs(void) {
    const int64_t dims[] = {2, 3};
    int64_t values[1][2] = {{0, 5}};
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND), *other = NULL;
    OK(aclSetTensorFormat(desc, ACL_FORMAT_NCHW));
    OK(aclSetTensorStorageFormat(desc, ACL_FORMAT_NC1HWC0));
    EXPECT(aclGetTensorDescFormat(desc) == ACL_FORMAT_ND); /* those were of the storage */
    OK(aclSetTensorOriginFormat(desc, ACL_FORMAT_NHWC));
    EXPECT(aclGetTensorDescFormat(desc) == ACL_FORMAT_NHWC);
    OK(aclSetTensorShape(desc, 1, dims));
    OK(aclSetTensorStorageShape(desc, 1, dims));
    EXPECT(aclGetTensorDescNumDims(desc) == 2);
    OK(aclSetTensorFormat(NULL, ACL_FORMAT_ND));
    OK(aclSetTensorOriginFormat(NULL, ACL_FORMAT_ND));
    CODE(100000, aclSetTensorShape(desc, 1, NULL));
    OK(aclSetTensorValueRange(desc, 1, values));
    OK(aclSetTensorDynamicInput(desc, "x"));
    OK(aclSetTensorPlaceMent(desc, ACL_MEMTYPE_HOST));
    EXPECT(aclGetTensorDescByIndex(desc, 0) == desc && aclGetTensorDescByIndex(desc, 1) == NULL);
    EXPECT(aclGetTensorDescAddress(desc) == NULL);
    CODE(200001, aclTransTensorDescFormat(desc, ACL_FORMAT_NCHW, &other));
    aclDestroyTensorDesc(desc);
}

int main(void) {
    start();
    system_facts();
    devices();
    streams();
    events();
    memory();
    descs();
    finish();
    return 0;
}
