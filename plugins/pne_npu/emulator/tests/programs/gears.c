/* A model with gears 1, 2 and 4 of its batch: y = relu(a + b), float32 [n, 4] (argument 1),
        and one with open sizes (2). */
#include "check.h"

#define WIDTH 4
#define ROW (WIDTH * sizeof(float))

static void gears(const char *path) {
    uint32_t id = 0;
    OK(aclmdlLoadFromFile(path, &id));
    aclmdlDesc *desc = aclmdlCreateDesc();
    OK(aclmdlGetDesc(desc, id));
    EXPECT(aclmdlGetNumInputs(desc) == 3 && aclmdlGetInputSizeByIndex(desc, 0) == 4 * ROW);
    size_t slot = 0;
    OK(aclmdlGetInputIndexByName(desc, ACL_DYNAMIC_TENSOR_NAME, &slot));
    EXPECT(slot == 2);
    aclmdlBatch batch;
    OK(aclmdlGetDynamicBatch(desc, &batch));
    EXPECT(batch.batchCount == 3 && batch.batch[2] == 4);
    aclmdlIODims dims;
    OK(aclmdlGetInputDims(desc, 0, &dims));
    EXPECT(dims.dims[0] == -1 && dims.dims[1] == WIDTH);
    float x[4 * WIDTH], y[4 * WIDTH];
    for (int i = 0; i < 4 * WIDTH; ++i) x[i] = (float)i;
    const size_t choice = aclmdlGetInputSizeByIndex(desc, slot);
    void *in = device(4 * ROW), *out = device(4 * ROW), *gear = device(choice);
    aclmdlDataset *inputs = one_buffer(in, 4 * ROW), *outputs = one_buffer(out, 4 * ROW);
    OK(aclmdlAddDatasetBuffer(inputs, aclCreateDataBuffer(in, 4 * ROW)));
    OK(aclmdlAddDatasetBuffer(inputs, aclCreateDataBuffer(gear, choice)));
    OK(aclrtMemcpy(in, 4 * ROW, x, 4 * ROW, ACL_MEMCPY_HOST_TO_DEVICE));
    CODE(145013, aclmdlSetDynamicBatchSize(id, inputs, slot, 3));
    CODE(100000, aclmdlSetDynamicBatchSize(id, inputs, slot, 0));
    CODE(145013, aclmdlSetDynamicHWSize(id, inputs, slot, 2, 2));
    for (int64_t n = 1; n <= 4; n *= 2) {
        OK(aclrtMemset(out, 4 * ROW, 0, 4 * ROW));
        OK(aclmdlSetDynamicBatchSize(id, inputs, slot, (uint64_t)n));
        OK(aclmdlExecute(id, inputs, outputs));
        OK(aclmdlGetCurOutputDims(desc, 0, &dims));
        EXPECT(dims.dims[0] == n);
        OK(aclrtMemcpy(y, 4 * ROW, out, 4 * ROW, ACL_MEMCPY_DEVICE_TO_HOST));
        for (int i = 0; i < 4 * WIDTH; ++i) EXPECT(y[i] == (i < n * WIDTH ? 2 * x[i] : 0));
    }
    OK(aclUpdateDataBuffer(aclmdlGetDatasetBuffer(inputs, slot), gear, 2));
    CODE(145012, aclmdlSetDynamicBatchSize(id, inputs, slot, 2));
    OK(aclmdlDestroyDesc(desc));
    OK(aclmdlUnload(id));
    drop_dataset(inputs);
    drop_dataset(outputs);
    OK(aclrtFree(in));
    OK(aclrtFree(out));
    OK(aclrtFree(gear));
}

static void open_sizes(const char *path) {
    uint32_t id = 0;
    OK(aclmdlLoadFromFile(path, &id));
    aclmdlDesc *desc = aclmdlCreateDesc();
    OK(aclmdlGetDesc(desc, id));
    EXPECT(aclmdlGetNumInputs(desc) == 2 && aclmdlGetInputSizeByIndex(desc, 0) == 0);
    aclmdlIODims dims;
    aclmdlIODimsRange range;
    CODE(200001, aclmdlGetCurOutputDims(desc, 0, &dims));
    OK(aclmdlGetInputDimsRange(desc, 0, &range));
    EXPECT(range.rangeCount == 2 && range.range[0][1] == -1 && range.range[1][0] == WIDTH);
    void *in = device(3 * ROW);
    OK(aclrtMemset(in, 3 * ROW, 0, 3 * ROW));
    aclmdlDataset *inputs = one_buffer(in, 3 * ROW), *outputs = one_buffer(NULL, 0);
    OK(aclmdlAddDatasetBuffer(inputs, aclCreateDataBuffer(in, 3 * ROW)));
    CODE(100000, aclmdlExecute(id, inputs, outputs));
    const int64_t shape[] = {3, WIDTH}, wrong[] = {3, WIDTH + 1};
    aclTensorDesc *good = aclCreateTensorDesc(ACL_FLOAT, 2, shape, ACL_FORMAT_ND);
    aclTensorDesc *bad = aclCreateTensorDesc(ACL_FLOAT, 2, wrong, ACL_FORMAT_ND);
    OK(aclmdlSetDatasetTensorDesc(inputs, good, 0));
    OK(aclmdlSetDatasetTensorDesc(inputs, bad, 1));
    CODE(100000, aclmdlExecute(id, inputs, outputs));
    OK(aclmdlSetDatasetTensorDesc(inputs, good, 1));
    OK(aclmdlExecute(id, inputs, outputs));
    aclTensorDesc *found = aclmdlGetDatasetTensorDesc(outputs, 0);
    EXPECT(aclGetTensorDescDim(found, 0) == 3 && aclGetTensorDescSize(found) == 3 * ROW);
    OK(aclrtFree(aclGetDataBufferAddr(aclmdlGetDatasetBuffer(outputs, 0))));
    aclDestroyTensorDesc(good);
    aclDestroyTensorDesc(bad);
    OK(aclmdlDestroyDesc(desc));
    OK(aclmdlUnload(id));
    drop_dataset(inputs);
    drop_dataset(outputs);
    OK(aclrtFree(in));
}

int main(int argc, char **argv) {
    EXPECT(argc > 2);
    start();
    gears(argv[1]);
    open_sizes(argv[2]);
    finish();
    return 0;
}
