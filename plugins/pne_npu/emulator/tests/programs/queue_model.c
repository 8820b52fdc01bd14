/* A model that is driven by queues: float a, b [3] to their sum. Argument 1: its file. */
#include "acl/acl_tdt_queue.h"
#include "check.h"

static uint32_t queue(void) {
    uint32_t id = 0;
    OK(acltdtCreateQueue(NULL, &id));
    return id;
}

static void run(const uint32_t *inputs, uint32_t output) {
    for (int round = 0; round < 3; ++round) {
        const float a[] = {1, 2, (float)round}, b[] = {10, 20, 30};
        float sum[3];
        size_t size = 0;
        char user[8];
        OK(acltdtEnqueueData(inputs[0], a, sizeof a, NULL, 0, -1, 0));
        OK(acltdtEnqueueData(inputs[1], b, sizeof b, "last", 5, -1, 0));
        OK(acltdtDequeueData(output, sum, sizeof sum, &size, user, sizeof user, -1));
        EXPECT(size == sizeof sum && sum[0] == 11 && sum[2] == (float)(30 + round) && strcmp(user, "last") == 0);
    }
    /* Bytes that do not fit give a result of none, and the next run is right. */
    const float a[] = {1, 2, 3};
    float sum[3];
    size_t size = 9;
    OK(acltdtEnqueueData(inputs[0], a, 8, NULL, 0, -1, 0));
    OK(acltdtEnqueueData(inputs[1], a, sizeof a, NULL, 0, -1, 0));
    OK(acltdtDequeueData(output, sum, sizeof sum, &size, NULL, 0, -1));
    EXPECT(size == 0);
    for (int i = 0; i < 2; ++i) OK(acltdtEnqueueData(inputs[i], a, sizeof a, NULL, 0, -1, 0));
    OK(acltdtDequeueData(output, sum, sizeof sum, &size, NULL, 0, -1));
    EXPECT(size == sizeof sum && sum[2] == 6);
}

static void with_config(const char *path, const uint32_t *inputs, const uint32_t *output) {
    aclmdlConfigHandle *config = aclmdlCreateConfigHandle();
    const size_t kind = ACL_MDL_LOAD_FROM_FILE_WITH_Q, two = 2, one = 1;
    uint32_t id = 0;
    OK(aclmdlSetConfigOpt(config, ACL_MDL_LOAD_TYPE_SIZET, &kind, sizeof kind));
    OK(aclmdlSetConfigOpt(config, ACL_MDL_PATH_PTR, &path, sizeof path));
    CODE(100000, aclmdlLoadWithConfig(config, &id));
    OK(aclmdlSetConfigOpt(config, ACL_MDL_INPUTQ_NUM_SIZET, &two, sizeof two));
    OK(aclmdlSetConfigOpt(config, ACL_MDL_INPUTQ_ADDR_PTR, &inputs, sizeof inputs));
    OK(aclmdlSetConfigOpt(config, ACL_MDL_OUTPUTQ_NUM_SIZET, &one, sizeof one));
    OK(aclmdlSetConfigOpt(config, ACL_MDL_OUTPUTQ_ADDR_PTR, &output, sizeof output));
    OK(aclmdlLoadWithConfig(config, &id));
    run(inputs, *output);
    OK(aclmdlUnload(id));
    OK(aclmdlDestroyConfigHandle(config));
}

static void from_memory(const char *path, const uint32_t *inputs, uint32_t output) {
    static char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    EXPECT(file != NULL);
    const size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    uint32_t id = 0;
    OK(aclmdlLoadFromMemWithQ(bytes, size, &id, inputs, 2, &output, 1));
    run(inputs, output);
    OK(aclmdlUnload(id));
}

int main(int argc, char **argv) {
    EXPECT(argc > 1);
    start();
    const uint32_t inputs[] = {queue(), queue()}, output = queue();
    uint32_t id = 0, unknown[] = {77, 78};
    CODE(100000, aclmdlLoadFromFileWithQ(argv[1], &id, NULL, 0, &output, 1));
    CODE(145008, aclmdlLoadFromFileWithQ(argv[1], &id, inputs, 1, &output, 1));
    CODE(107000, aclmdlLoadFromFileWithQ(argv[1], &id, unknown, 2, &output, 1));
    OK(aclmdlLoadFromFileWithQ(argv[1], &id, inputs, 2, &output, 1));
    aclmdlDataset *set = aclmdlCreateDataset();
    CODE(145000, aclmdlExecute(id, set, set));
    OK(aclmdlDestroyDataset(set));
    run(inputs, output);
    OK(aclmdlUnload(id));
    with_config(argv[1], inputs, &output);
    from_memory(argv[1], inputs, output);
    OK(acltdtDestroyQueue(inputs[0]));
    OK(acltdtDestroyQueue(inputs[1]));
    OK(acltdtDestroyQueue(output));
    finish();
    return 0;
}
