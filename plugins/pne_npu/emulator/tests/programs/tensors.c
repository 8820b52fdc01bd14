/* Data buffers, tensor descriptors, datasets. */
#include "check.h"

static void buffers(void) {
    int memory[4];
    aclDataBuffer *buffer = aclCreateDataBuffer(memory, sizeof memory);
    EXPECT(aclGetDataBufferAddr(buffer) == memory && aclGetDataBufferSize(buffer) == 16
            && aclGetDataBufferSizeV2(buffer) == 16);
    OK(aclUpdateDataBuffer(buffer, NULL, 0));
    EXPECT(aclGetDataBufferAddr(buffer) == NULL && aclGetDataBufferSizeV2(NULL) == 0
            && aclGetDataBufferAddr(NULL) == NULL);
    CODE(100000, aclUpdateDataBuffer(NULL, NULL, 0));
    CODE(100000, aclDestroyDataBuffer(NULL));
    OK(aclDestroyDataBuffer(buffer));
}

static void descs(void) {
    const int64_t dims[] = {2, 3, 4}, open[] = {2, -1}, rank[] = {-2};
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT16, 3, dims, ACL_FORMAT_ND);
    EXPECT(aclGetTensorDescType(desc) == ACL_FLOAT16 && aclGetTensorDescFormat(desc) == ACL_FORMAT_ND);
    EXPECT(aclGetTensorDescSize(desc) == 48 && aclGetTensorDescElementCount(desc) == 24
            && aclGetTensorDescNumDims(desc) == 3);
    int64_t size = 0, range[2];
    OK(aclGetTensorDescDimV2(desc, 2, &size));
    EXPECT(size == 4 && aclGetTensorDescDim(desc, 1) == 3 && aclGetTensorDescDim(desc, 3) == -1);
    CODE(100000, aclGetTensorDescDimV2(desc, 3, &size));
    int64_t ranges[3][2] = {{1, 2}, {3, 3}, {4, 8}};
    OK(aclSetTensorShapeRange(desc, 3, ranges));
    OK(aclGetTensorDescDimRange(desc, 2, 2, range));
    EXPECT(range[0] == 4 && range[1] == 8);
    CODE(100000, aclGetTensorDescDimRange(desc, 2, 1, range));
    aclSetTensorDescName(desc, "image");
    EXPECT(strcmp(aclGetTensorDescName(desc), "image") == 0 && strcmp(aclGetTensorDescName(NULL), "") == 0);
    OK(aclSetTensorOriginShape(desc, 2, dims));
    EXPECT(aclGetTensorDescNumDims(desc) == 2);
    OK(aclSetTensorConst(desc, &size, sizeof size));
    CODE(100000, aclSetTensorConst(desc, &size, 0));
    aclDestroyTensorDesc(desc);
    EXPECT(aclCreateTensorDesc(ACL_FLOAT, -1, dims, ACL_FORMAT_ND) == NULL);
    EXPECT(aclCreateTensorDesc(ACL_FLOAT, 1, NULL, ACL_FORMAT_ND) == NULL);
    desc = aclCreateTensorDesc(ACL_FLOAT, 0, NULL, ACL_FORMAT_ND);
    EXPECT(aclGetTensorDescElementCount(desc) == 1 && aclGetTensorDescSize(desc) == 4);
    aclDestroyTensorDesc(desc);
    desc = aclCreateTensorDesc(ACL_FLOAT, 2, open, ACL_FORMAT_ND);
    EXPECT(aclGetTensorDescSize(desc) == 0);
    aclDestroyTensorDesc(desc);
    desc = aclCreateTensorDesc(ACL_FLOAT, 1, rank, ACL_FORMAT_ND);
    EXPECT(aclGetTensorDescNumDims(desc) == ACL_UNKNOWN_RANK);
    aclDestroyTensorDesc(desc);
    EXPECT(aclGetTensorDescType(NULL) == ACL_DT_UNDEFINED && aclGetTensorDescNumDims(NULL) == 0);
}

static void sets(void) {
    const int64_t dims[] = {5};
    aclmdlDataset *dataset = one_buffer(NULL, 0);
    EXPECT(aclmdlGetDatasetNumBuffers(dataset) == 1 && aclmdlGetDatasetBuffer(dataset, 1) == NULL);
    EXPECT(aclmdlGetDatasetNumBuffers(NULL) == 0 && aclmdlGetDatasetTensorDesc(dataset, 0) == NULL);
    aclTensorDesc *desc = aclCreateTensorDesc(ACL_INT8, 1, dims, ACL_FORMAT_ND);
    OK(aclmdlSetDatasetTensorDesc(dataset, desc, 0));
    CODE(100000, aclmdlSetDatasetTensorDesc(dataset, desc, 1));
    aclDestroyTensorDesc(desc);
    EXPECT(aclGetTensorDescSize(aclmdlGetDatasetTensorDesc(dataset, 0)) == 5);
    OK(aclmdlSetDatasetTensorDesc(dataset, NULL, 0));
    EXPECT(aclmdlGetDatasetTensorDesc(dataset, 0) == NULL);
    CODE(100000, aclmdlAddDatasetBuffer(dataset, NULL));
    CODE(100000, aclmdlDestroyDataset(NULL));
    drop_dataset(dataset);
}

int main(void) {
    start();
    buffers();
    descs();
    sets();
    finish();
    return 0;
}
