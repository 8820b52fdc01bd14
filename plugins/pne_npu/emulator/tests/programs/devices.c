/* Initialising, devices, contexts of threads, versions, error texts. Two devices are visible. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

static void *in_thread(void *context) {
    int32_t id = 9;
    CODE(107002, aclrtGetDevice(&id));
    void *block = NULL;
    CODE(107002, aclrtMalloc(&block, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    OK(aclrtSetCurrentContext(context));
    OK(aclrtGetDevice(&id));
    EXPECT(id == 1);
    return NULL;
}

static void configs(void) {
    char path[] = "/tmp/acl-config-XXXXXX";
    const int file = mkstemp(path);
    EXPECT(file >= 0 && write(file, "{\"a\": [1, 2}", 12) == 12);
    CODE(100006, aclInit(path));
    CODE(100003, aclInit("/nowhere/acl.json"));
    EXPECT(ftruncate(file, 0) == 0 && pwrite(file, "{}", 2, 0) == 2);
    OK(aclInit(path));
    CODE(100002, aclInit(path));
    OK(aclFinalize());
    CODE(100037, aclFinalize());
    close(file);
    unlink(path);
}

static void counts(void) {
    uint64_t rest = 9;
    OK(aclInit(NULL));
    CODE(100002, aclInit(NULL));
    OK(aclFinalizeReference(&rest));
    EXPECT(rest == 1);
    OK(aclFinalizeReference(&rest));
    EXPECT(rest == 0);
    CODE(100037, aclFinalizeReference(&rest));
}

static void texts(void) {
    void *block = NULL;
    aclGetRecentErrMsg();
    EXPECT(aclGetRecentErrMsg() == NULL);
    CODE(100000, aclrtMalloc(&block, 0, ACL_MEM_MALLOC_NORMAL_ONLY));
    const char *text = aclGetRecentErrMsg();
    EXPECT(text != NULL && strstr(text, "[PID: ") == text && strstr(text, "(EH0001): ") != NULL);
    EXPECT(aclGetRecentErrMsg() == NULL);
    aclrtGetLastError(ACL_RT_THREAD_LEVEL);
    CODE(107001, aclrtSetDevice(77));
    EXPECT(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL) == 107001);
    EXPECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL) == 107001 && aclrtGetLastError(ACL_RT_THREAD_LEVEL) == 0);
    aclGetRecentErrMsg();
}

static void numbers(void) {
    EXPECT(aclDataTypeSize(ACL_FLOAT) == 4 && aclDataTypeSize(ACL_BF16) == 2 && aclDataTypeSize(ACL_COMPLEX128) == 16);
    EXPECT(aclDataTypeSize(ACL_STRING) == 0 && aclDataTypeSize(ACL_FLOAT6_E3M2) == 8 && aclDataTypeSize(ACL_INT4) == 1);
    EXPECT(aclFloatToFloat16(1.0F) == 0x3C00 && aclFloat16ToFloat(0x3C00) == 1.0F
            && aclFloat16ToFloat(0xC000) == -2.0F);
    EXPECT(aclFloatToFloat16(1e9F) == 0x7BFF && aclFloatToFloat16(-1e9F) == 0xFBFF
            && aclFloat16ToFloat(0x7C00) == 65536.0F);
    EXPECT(aclFloat16ToFloat(0x0001) > 5.9e-8F && aclFloat16ToFloat(0x0001) < 6.0e-8F
            && aclFloatToFloat16(5.97e-8F) == 1);
    int32_t major = 0, minor = 0, patch = 0;
    OK(aclrtGetVersion(&major, &minor, &patch));
    EXPECT(major == 1 && strcmp(aclrtGetSocName(), "Ascend310P3") == 0);
    for (int half = 0; half < 0x7C00; ++half) EXPECT(aclFloatToFloat16(aclFloat16ToFloat((aclFloat16)half)) == half);
}

int main(void) {
    configs();
    counts();
    OK(aclInit(NULL));
    uint32_t count = 0;
    OK(aclrtGetDeviceCount(&count));
    EXPECT(count == 2);
    int32_t id = 9;
    CODE(107002, aclrtGetDevice(&id));
    OK(aclrtSetDevice(1));
    texts();
    numbers();
    aclrtRunMode mode;
    OK(aclrtGetRunMode(&mode));
    EXPECT(mode == ACL_HOST);
    CODE(100000, aclrtGetRunMode(NULL));
    aclrtContext own = NULL, other = NULL, now = NULL;
    OK(aclrtGetCurrentContext(&own));
    OK(aclrtCreateContext(&other, 1));
    OK(aclrtGetCurrentContext(&now));
    EXPECT(now == other && now != own);
    CODE(107001, aclrtCreateContext(&now, 2));
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, in_thread, other) == 0 && pthread_join(thread, NULL) == 0);
    CODE(107002, aclrtDestroyContext(own));
    OK(aclrtDestroyContext(other));
    CODE(107002, aclrtDestroyContext(other));
    CODE(107000, aclrtSetCurrentContext(other));
    CODE(107002, aclrtGetCurrentContext(&now));
    OK(aclrtSetCurrentContext(own));
    OK(aclrtSynchronizeDevice());
    OK(aclrtSetDevice(1));
    OK(aclrtResetDevice(1));
    OK(aclrtGetDevice(&id));
    OK(aclrtResetDevice(1));
    CODE(507007, aclrtResetDevice(1));
    CODE(107002, aclrtGetDevice(&id));
    OK(aclrtSetDevice(0));
    OK(aclrtSetDevice(0));
    OK(aclrtResetDeviceForce(0));
    CODE(507007, aclrtResetDeviceForce(0));
    OK(aclFinalize());
    return 0;
}
