/* Buffers of programs that run on the chip itself: lengths, user data, references, chains, queues. */
#include "acl/acl_tdt_queue.h"
#include "check.h"

static acltdtBuf buffer(size_t size) {
    acltdtBuf made = NULL;
    OK(acltdtAllocBuf(size, ACL_TDT_NORMAL_MEM, &made));
    return made;
}

static void contents(void) {
    acltdtBuf one = buffer(64);
    void *data = NULL;
    size_t size = 0;
    char user[96];
    CODE(100000, acltdtAllocBuf(64, 2, &one));
    CODE(100000, acltdtAllocBuf(0, ACL_TDT_NORMAL_MEM, &one));
    CODE(100000, acltdtAllocBuf(64, ACL_TDT_DVPP_MEM, NULL));
    OK(acltdtGetBufDataLen(one, &size));
    EXPECT(size == 0);
    OK(acltdtGetBufData(one, &data, &size));
    EXPECT(size == 64);
    memset(data, 7, 64); /* host and device memory are one */
    OK(acltdtSetBufDataLen(one, 48));
    CODE(107000, acltdtSetBufDataLen(one, 65));
    OK(acltdtGetBufDataLen(one, &size));
    EXPECT(size == 48);
    OK(acltdtSetBufUserData(one, "abc", 4, 92));
    CODE(100000, acltdtSetBufUserData(one, "abc", 4, 93));
    OK(acltdtGetBufUserData(one, user, 96, 0));
    EXPECT(strcmp(user + 92, "abc") == 0);
    acltdtBuf second = NULL;
    OK(acltdtCopyBufRef(one, &second));
    OK(acltdtFreeBuf(one));
    CODE(107000, acltdtFreeBuf(one));
    void *same = NULL;
    OK(acltdtGetBufData(second, &same, &size));
    EXPECT(same == data && ((char *)same)[63] == 7);
    OK(acltdtFreeBuf(second));
    CODE(107000, acltdtFreeBuf((acltdtBuf)user));
}

static void chains(void) {
    acltdtBuf head = buffer(8), second = buffer(8), third = buffer(8), found = NULL;
    uint32_t count = 0;
    CODE(507899, acltdtAppendBufChain(head, head));
    OK(acltdtAppendBufChain(second, third));
    OK(acltdtAppendBufChain(head, second)); /* its chain comes with it */
    OK(acltdtGetBufChainNum(head, &count));
    EXPECT(count == 3);
    OK(acltdtGetBufFromChain(head, 2, &found));
    EXPECT(found == third);
    OK(acltdtGetBufFromChain(head, 0, &found));
    EXPECT(found == head);
    CODE(107000, acltdtGetBufFromChain(head, 3, &found));
    CODE(107000, acltdtAppendBufChain(head, third));
    CODE(107000, acltdtFreeBuf(second));
    for (int i = 3; i < 128; ++i) OK(acltdtAppendBufChain(head, buffer(8)));
    acltdtBuf rest = buffer(8);
    CODE(207012, acltdtAppendBufChain(head, rest));
    OK(acltdtFreeBuf(rest));
    OK(acltdtFreeBuf(head));
    CODE(107000, acltdtFreeBuf(third));
}

static void queues(void) {
    uint32_t id = 0;
    OK(acltdtCreateQueue(NULL, &id)); /* an automatic name, and depth 8 */
    acltdtBuf one = buffer(8), found = NULL;
    CODE(500001, acltdtDequeue(id, &found, 0));
    OK(acltdtEnqueue(id, one, 0));
    CODE(107000, acltdtFreeBuf(one)); /* it is the queue's */
    for (int i = 1; i < 8; ++i) OK(acltdtEnqueue(id, buffer(8), 0));
    acltdtBuf rest = buffer(8);
    CODE(500001, acltdtEnqueue(id, rest, 2));
    OK(acltdtFreeBuf(rest));
    OK(acltdtDequeue(id, &found, -1));
    EXPECT(found == one);
    OK(acltdtFreeBuf(found));
    OK(acltdtDestroyQueue(id)); /* what lies in it goes with it */
    const int value = 5;
    OK(acltdtCreateQueue(NULL, &id));
    OK(acltdtEnqueueData(id, &value, sizeof value, "u", 2, 0, 0));
    OK(acltdtDequeue(id, &found, 0));
    void *data = NULL;
    size_t size = 0;
    OK(acltdtGetBufData(found, &data, &size));
    EXPECT(*(int *)data == 5 && size == sizeof value);
    OK(acltdtFreeBuf(found));
    OK(acltdtDestroyQueue(id));
}

/* The same operations, one layer lower. */
static void runtime_layer(void) {
    aclrtMbuf one = NULL, second = NULL, found = NULL;
    void *data = NULL;
    size_t size = 0;
    uint32_t count = 0;
    char user[4];
    OK(aclrtAllocBuf(&one, 16));
    OK(aclrtGetBufData(one, &data, &size));
    OK(aclrtSetBufDataLen(one, 16));
    OK(aclrtGetBufDataLen(one, &size));
    EXPECT(size == 16);
    OK(aclrtSetBufUserData(one, "xyz", 4, 0));
    OK(aclrtGetBufUserData(one, user, 4, 0));
    EXPECT(strcmp(user, "xyz") == 0);
    OK(aclrtCopyBufRef(one, &second));
    OK(aclrtAppendBufChain(one, second));
    OK(aclrtGetBufChainNum(one, &count));
    OK(aclrtGetBufFromChain(one, 1, &found));
    EXPECT(count == 2 && found == second);
    OK(aclrtFreeBuf(one));
}

int main(void) {
    start();
    contents();
    chains();
    queues();
    runtime_layer();
    finish();
    return 0;
}
