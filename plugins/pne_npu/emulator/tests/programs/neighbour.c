/* Takes memory of a device and keeps it until its input ends; prints the code, and the bytes that are free then. */
#include <unistd.h>

#include "check.h"

int main(int argc, char **argv) {
    EXPECT(argc > 1);
    start();
    void *block = NULL;
    const int code = aclrtMalloc(&block, (size_t)atol(argv[1]), ACL_MEM_MALLOC_HUGE_FIRST);
    size_t free_bytes = 0, total = 0;
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    printf("%d %zu\n", code, free_bytes);
    fflush(stdout);
    char rest;
    while (read(0, &rest, 1) > 0) {}
    if (code == 0) OK(aclrtFree(block));
    finish();
    return 0;
}
