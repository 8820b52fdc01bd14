/* Device and pinned memory, copies in all directions, attributes. Each device has 1 MiB. */
#include "check.h"

#define SIZE 1000

static void copies(void) {
    char pageable[SIZE], back[SIZE];
    memset(pageable, 3, SIZE);
    char *host = pinned(SIZE);
    char *a = device(SIZE), *b = device(SIZE);
    EXPECT((size_t)a % 64 == 0 && (size_t)host % 64 == 0);
    OK(aclrtMemcpy(a, SIZE, pageable, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(b, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
    OK(aclrtMemcpy(host, SIZE, b, SIZE, ACL_MEMCPY_DEFAULT));
    OK(aclrtMemcpy(back, SIZE, b + 10, SIZE - 10, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(host[SIZE - 1] == 3 && back[0] == 3);
    OK(aclrtMemcpy(pageable, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_HOST));
    OK(aclrtMemcpy(a, 0, NULL, 0, ACL_MEMCPY_HOST_TO_DEVICE));
    CODE(100000, aclrtMemcpy(a, SIZE, NULL, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    CODE(107000, aclrtMemcpy(a, SIZE - 1, pageable, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    CODE(100000, aclrtMemcpy(a, SIZE, b, SIZE, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE));
    CODE(107000, aclrtMemcpy(a, SIZE, pageable, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    CODE(207000, aclrtMemcpyAsync(host, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_HOST, NULL));
    OK(aclrtMemset(a, SIZE, 9, SIZE));
    CODE(107000, aclrtMemset(a, SIZE, 9, SIZE + 1));
    OK(aclrtMemset(NULL, 0, 9, 0));
    OK(aclrtMemcpy(back, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(back[5] == 9);
    OK(aclrtMemcpy2d(a, 100, pageable, 50, 40, 10, ACL_MEMCPY_HOST_TO_DEVICE));
    CODE(100000, aclrtMemcpy2d(a, 30, pageable, 50, 40, 10, ACL_MEMCPY_HOST_TO_DEVICE));
    OK(aclrtMemcpy(back, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(back[139] == 3 && back[140] == 9);
    OK(aclrtFree(a));
    OK(aclrtFree(b));
    OK(aclrtFreeHost(host));
}

static void attributes(void) {
    int local = 0;
    char *a = device(SIZE), *host = pinned(SIZE);
    aclrtPtrAttributes found;
    OK(aclrtPointerGetAttributes(a + 5, &found));
    EXPECT(found.location.type == ACL_MEM_LOCATION_TYPE_DEVICE && found.location.id == 0);
    OK(aclrtPointerGetAttributes(host, &found));
    EXPECT(found.location.type == ACL_MEM_LOCATION_TYPE_HOST);
    OK(aclrtPointerGetAttributes(&local, &found));
    EXPECT(found.location.type == ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    OK(aclrtFree(a));
    OK(aclrtFreeHost(host));
}

static void accounts(void) {
    size_t before = 0, now = 0, total = 0;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
    EXPECT(total == 1 << 20);
    CODE(107016, aclrtGetMemInfo((aclrtMemAttr)99, &now, &total));
    void *block = device(SIZE), *large = NULL;
    OK(aclrtGetMemInfo(ACL_DDR_MEM, &now, &total));
    EXPECT(before - now == 1024 + 32);
    CODE(207001, aclrtMalloc(&large, 1 << 20, ACL_MEM_MALLOC_HUGE_ONLY));
    CODE(100000, aclrtMalloc(&large, 0, ACL_MEM_MALLOC_HUGE_ONLY));
    CODE(100000, aclrtMallocHost(&large, 0));
    OK(aclrtFree(block));
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &now, &total));
    EXPECT(now == before);
    CODE(100000, aclrtFree(NULL));
}

int main(void) {
    void *block = NULL;
    CODE(107002, aclrtMalloc(&block, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    CODE(107002, aclrtMallocHost(&block, 64));
    CODE(107017, aclrtFree(&block));
    start();
    copies();
    attributes();
    accounts();
    finish();
    return 0;
}
