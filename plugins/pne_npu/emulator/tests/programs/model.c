/* Loading, describing, executing and unloading a model: y = x + x, three floats (argument 1). */
#include "acl_emulator.h"
#include "check.h"

#define COUNT 3
#define BYTES (COUNT * sizeof(float))

static aclmdlDataset *two_inputs(void *a, void *b) {
    aclmdlDataset *made = one_buffer(a, BYTES);
    OK(aclmdlAddDatasetBuffer(made, aclCreateDataBuffer(b, BYTES)));
    return made;
}

static void describes(uint32_t id) {
    aclmdlDesc *desc = aclmdlCreateDesc();
    OK(aclmdlGetDesc(desc, id));
    EXPECT(aclmdlGetNumInputs(desc) == 2 && aclmdlGetNumOutputs(desc) == 1);
    EXPECT(aclmdlGetInputSizeByIndex(desc, 0) == BYTES && aclmdlGetOutputSizeByIndex(desc, 0) == BYTES);
    EXPECT(aclmdlGetInputSizeByIndex(desc, 9) == 0 && strcmp(aclmdlGetInputNameByIndex(desc, 9), "") == 0);
    EXPECT(aclmdlGetInputDataType(desc, 0) == ACL_FLOAT && aclmdlGetOutputDataType(desc, 3) == ACL_DT_UNDEFINED);
    EXPECT(aclmdlGetInputFormat(desc, 0) == ACL_FORMAT_ND && aclmdlGetOutputFormat(desc, 4) == ACL_FORMAT_UNDEFINED);
    aclmdlIODims dims;
    OK(aclmdlGetInputDims(desc, 1, &dims));
    EXPECT(dims.dimCount == 1 && dims.dims[0] == COUNT && strcmp(dims.name, "X2") == 0);
    OK(aclmdlGetInputDimsV2(desc, 1, &dims));
    OK(aclmdlGetOutputDims(desc, 0, &dims));
    OK(aclmdlGetCurOutputDims(desc, 0, &dims));
    CODE(100000, aclmdlGetInputDims(desc, 2, &dims));
    size_t index = 9;
    OK(aclmdlGetInputIndexByName(desc, "X2", &index));
    EXPECT(index == 1);
    CODE(100000, aclmdlGetInputIndexByName(desc, "nobody", &index));
    OK(aclmdlGetOutputIndexByName(desc, aclmdlGetOutputNameByIndex(desc, 0), &index));
    aclmdlBatch batch;
    aclmdlHW hw;
    OK(aclmdlGetDynamicBatch(desc, &batch));
    OK(aclmdlGetDynamicHW(desc, 0, &hw));
    EXPECT(batch.batchCount == 0 && hw.hwCount == 0);
    OK(aclmdlGetInputDynamicGearCount(desc, (size_t)-1, &index));
    EXPECT(index == 0);
    CODE(100000, aclmdlGetInputDynamicGearCount(desc, 0, &index));
    EXPECT(strcmp(aclmdlGetTensorRealName(desc, "X1"), "X1") == 0);
    OK(aclmdlDestroyDesc(desc));
    EXPECT(aclmdlGetNumInputs(NULL) == 0 && strcmp(aclmdlGetInputNameByIndex(NULL, 0), "") == 0);
}

static void executes(uint32_t id) {
    float x[COUNT] = {1, 2, 3}, y[COUNT] = {0};
    void *in = device(BYTES), *out = device(BYTES);
    OK(aclrtMemcpy(in, BYTES, x, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    aclmdlDataset *inputs = two_inputs(in, in), *outputs = one_buffer(out, BYTES);
    OK(aclmdlExecute(id, inputs, outputs));
    OK(aclrtMemcpy(y, BYTES, out, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(y[0] == 2 && y[1] == 4 && y[2] == 6);

    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    float *result = pinned(BYTES);
    OK(aclmdlExecuteAsync(id, inputs, outputs, stream));
    OK(aclrtMemcpyAsync(result, BYTES, out, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtSynchronizeStream(stream));
    EXPECT(result[0] == 2 && result[2] == 6);
    OK(aclrtDestroyStream(stream));

    CODE(145000, aclmdlExecute(id, outputs, outputs));
    CODE(100000, aclmdlExecute(id, NULL, outputs));
    CODE(145003, aclmdlExecute(id + 7, inputs, outputs));
    drop_dataset(outputs);
    outputs = one_buffer(NULL, 0);
    OK(aclmdlExecute(id, inputs, outputs));
    void *made = aclGetDataBufferAddr(aclmdlGetDatasetBuffer(outputs, 0));
    EXPECT(made != NULL);
    OK(aclrtMemcpy(y, BYTES, made, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(y[1] == 4);
    OK(aclrtFree(made));
    drop_dataset(inputs);
    drop_dataset(outputs);
    OK(aclrtFree(in));
    OK(aclrtFree(out));
    OK(aclrtFreeHost(result));
}

static void loads(const char *path) {
    size_t work = 0, weight = 0;
    OK(aclmdlQuerySize(path, &work, &weight));
    EXPECT(work > 0 && weight > 0);
    void *w = device(work), *v = device(weight);
    uint32_t id = 0;
    CODE(145000, aclmdlLoadFromFileWithMem(path, &id, w, work - 1, v, weight));
    OK(aclmdlLoadFromFileWithMem(path, &id, w, work, v, weight));
    OK(aclmdlUnload(id));
    CODE(145003, aclmdlUnload(id));
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    const size_t size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    OK(aclmdlQuerySizeFromMem(bytes, size, &work, &weight));
    OK(aclmdlLoadFromMem(bytes, size, &id));
    OK(aclmdlUnload(id));
    OK(aclmdlLoadFromMemWithMem(bytes, size, &id, w, work, v, weight));
    OK(aclmdlUnload(id));
    CODE(145006, aclmdlLoadFromMem(bytes, size - 1, &id));
    CODE(145006, aclmdlLoadFromMem(bytes, 100, &id));
    aclmdlDesc *desc = aclmdlCreateDesc();
    OK(aclmdlGetDescFromMem(desc, bytes, size));
    OK(aclmdlGetDescFromFile(desc, path));
    OK(aclmdlDestroyDesc(desc));
    bytes[160] = 'x'; /* the maker: now it looks like a vendor's */
    CODE(545001, aclmdlLoadFromMem(bytes, size, &id));
    EXPECT(strstr(aclGetRecentErrMsg(), "compiled for hardware") != NULL);
    CODE(145002, aclmdlLoadFromFile("/nowhere/model.om", &id));
    CODE(100000, aclmdlLoadFromFile(NULL, &id));
    free(bytes);
    OK(aclrtFree(w));
    OK(aclrtFree(v));
}

/* With limits of time, of which one is too short where the fault script slows the first runs. */
static void limited(uint32_t id) {
    void *in = device(BYTES), *out = device(BYTES);
    OK(aclrtMemset(in, BYTES, 0, BYTES));
    aclmdlDataset *inputs = one_buffer(in, BYTES), *outputs = one_buffer(out, BYTES);
    OK(aclmdlAddDatasetBuffer(inputs, aclCreateDataBuffer(in, BYTES)));
    aclmdlExecConfigHandle *config = aclmdlCreateExecConfigHandle();
    int32_t limit = 30000;
    CODE(100000, aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, &limit, 8));
    OK(aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, &limit, sizeof limit));
    OK(aclmdlSetExecConfigOpt(config, ACL_MDL_EVENT_SYNC_TIMEOUT, &limit, sizeof limit));
    OK(aclmdlExecuteV2(id, inputs, outputs, NULL, config));
    CODE(100000, aclmdlExecuteV2(id, inputs, outputs, NULL, NULL));
    limit = 1;
    OK(aclmdlSetExecConfigOpt(config, ACL_MDL_STREAM_SYNC_TIMEOUT, &limit, sizeof limit));
    aclemuSetFaults("task:execute slow=100");
    CODE(507046, aclmdlExecuteV2(id, inputs, outputs, NULL, config));
    aclemuSetFaults(NULL);
    OK(aclrtSynchronizeDevice());
    OK(aclmdlDestroyExecConfigHandle(config));
    drop_dataset(inputs);
    drop_dataset(outputs);
    OK(aclrtFree(in));
    OK(aclrtFree(out));
}

static void facts(uint32_t id) {
    aclmdlAttrValue_t value = {.mdlPriority = 2};
    OK(aclmdlSetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, &value));
    value.mdlPriority = 0;
    OK(aclmdlGetAttribute(id, ACL_MDL_ATTR_PRIORITY_INT32, &value));
    EXPECT(value.mdlPriority == 2);
    aclmdlInputAippType kind;
    size_t index = 0;
    static char info[299216]; /* the vendor's struct, which our header does not spell out */
    OK(aclmdlGetAippType(id, 0, &kind, &index));
    EXPECT(kind == ACL_DATA_WITHOUT_AIPP && index == ACL_INVALID_NODE_INDEX);
    CODE(145015, aclmdlGetFirstAippInfo(id, 0, (aclAippInfo *)info));
    CODE(145003, aclmdlGetAippType(id + 7, 0, &kind, &index));
    CODE(145003, aclmdlGetFirstAippInfo(id + 7, 0, (aclAippInfo *)info));
    aclmdlDesc *desc = aclmdlCreateDesc();
    EXPECT(aclmdlGetOpAttr(desc, "add", "_datadump_original_op_names") == NULL);
    OK(aclmdlDestroyDesc(desc));
}

int main(int argc, char **argv) {
    EXPECT(argc > 1);
    uint32_t id = 0;
    OK(aclrtSetDevice(0));
    CODE(145001, aclmdlLoadFromFile(argv[1], &id));
    OK(aclrtResetDevice(0));
    start();
    loads(argv[1]);
    OK(aclmdlLoadFromFile(argv[1], &id));
    describes(id);
    executes(id);
    facts(id);
    limited(id);
    OK(aclmdlUnload(id));
    finish();
    return 0;
}
