// Functions of the headers that the emulator does not have: exported, so that programs link and start, and refused.
//
// No header is included here: the arguments are never looked at, so the functions are written without them.
#include "call.h"

namespace {

constexpr int kApiNotSupported = 200001;
constexpr int kFeatureUnsupported = 200006;
constexpr int kRuntimeNotSupported = 207000;
constexpr unsigned kNoNumber = 0xFFFFFFFF;

int refuse(const char *name, int code) {
    return emu::fail(code, code == kRuntimeNotSupported ? "EE1001" : "EH0001", std::string("the emulator has no ")
            + name);
}

}  // namespace

#define REFUSED(name, code) \
    __attribute__((visibility("default"))) int name() { return refuse(#name, code); }
#define REFUSED_POINTER(name, code)                          \
    __attribute__((visibility("default"))) void *name() {    \
        refuse(#name, code);                                 \
        return nullptr;                                      \
    }
#define NO_COUNT(name) \
    __attribute__((visibility("default"))) unsigned long name() { return 0; }
#define NO_NUMBER(name) \
    __attribute__((visibility("default"))) unsigned name() { return kNoNumber; }

extern "C" {

REFUSED(aclGetCannAttributeList, kApiNotSupported)
REFUSED(aclGetCannAttribute, kApiNotSupported)
REFUSED(aclGetDeviceCapability, kApiNotSupported)
REFUSED(aclInitCallbackRegister, kApiNotSupported)
REFUSED(aclInitCallbackUnRegister, kApiNotSupported)
REFUSED(aclFinalizeCallbackRegister, kApiNotSupported)
REFUSED(aclFinalizeCallbackUnRegister, kApiNotSupported)
REFUSED(aclrtGetDeviceUtilizationRate, kRuntimeNotSupported)
REFUSED(aclrtDeviceDisablePeerAccess, kRuntimeNotSupported)
REFUSED(aclrtDevicePeerAccessStatus, kRuntimeNotSupported)
REFUSED(aclrtSetDeviceResLimit, kRuntimeNotSupported)
REFUSED(aclrtCtxSetSysParamOpt, kRuntimeNotSupported)
REFUSED(aclrtCtxGetSysParamOpt, kRuntimeNotSupported)
REFUSED(aclrtSetSysParamOpt, kRuntimeNotSupported)
REFUSED(aclrtGetSysParamOpt, kRuntimeNotSupported)
REFUSED(aclrtCreateStreamV2, kRuntimeNotSupported)
REFUSED_POINTER(aclrtCreateStreamConfigHandle, kRuntimeNotSupported)
REFUSED(aclrtDestroyStreamConfigHandle, kRuntimeNotSupported)
REFUSED(aclrtSetStreamConfigOpt, kRuntimeNotSupported)
REFUSED(aclrtStreamStop, kRuntimeNotSupported)
REFUSED(aclrtSetStreamAttribute, kRuntimeNotSupported)
REFUSED(aclrtGetStreamAttribute, kRuntimeNotSupported)
REFUSED(aclrtSetStreamOverflowSwitch, kRuntimeNotSupported)
REFUSED(aclrtGetStreamOverflowSwitch, kRuntimeNotSupported)
REFUSED(aclrtSetOpWaitTimeout, kRuntimeNotSupported)
REFUSED(aclrtSetOpExecuteTimeOut, kRuntimeNotSupported)
REFUSED(aclrtGetEventId, kRuntimeNotSupported)
REFUSED(aclrtGetEventAvailNum, kRuntimeNotSupported)
REFUSED(aclrtSubscribeHostFunc, kRuntimeNotSupported)
REFUSED(aclrtProcessHostFunc, kRuntimeNotSupported)
REFUSED(aclrtUnSubscribeHostFunc, kRuntimeNotSupported)
REFUSED(aclrtSetExceptionInfoCallback, kRuntimeNotSupported)
NO_NUMBER(aclrtGetTaskIdFromExceptionInfo)
NO_NUMBER(aclrtGetStreamIdFromExceptionInfo)
NO_NUMBER(aclrtGetThreadIdFromExceptionInfo)
NO_NUMBER(aclrtGetDeviceIdFromExceptionInfo)
NO_NUMBER(aclrtGetErrorCodeFromExceptionInfo)
REFUSED(aclrtMallocHostWithCfg, kRuntimeNotSupported)
REFUSED(aclrtFreeHostWithDevSync, kRuntimeNotSupported)
REFUSED(aclrtGetMemUsageInfo, kRuntimeNotSupported)
REFUSED(aclrtHostRegisterV2, kRuntimeNotSupported)
REFUSED(aclrtHostGetDevicePointer, kRuntimeNotSupported)
REFUSED(aclrtMemFlush, kRuntimeNotSupported)
REFUSED(aclrtMemInvalidate, kRuntimeNotSupported)
REFUSED(aclmdlLoadFromModel, kApiNotSupported)
REFUSED(aclmdlQueryExeOMDesc, kApiNotSupported)
REFUSED(aclmdlBundleLoadFromFile, kApiNotSupported)
REFUSED(aclmdlBundleLoadFromMem, kApiNotSupported)
REFUSED(aclmdlBundleUnload, kApiNotSupported)
REFUSED(aclmdlBundleGetModelNum, kApiNotSupported)
REFUSED(aclmdlBundleGetModelId, kApiNotSupported)
REFUSED(aclmdlExecuteAsyncV2, kApiNotSupported)
REFUSED(aclmdlSetExternalWeightAddress, kApiNotSupported)
REFUSED_POINTER(aclmdlCreateAIPP, kApiNotSupported)
REFUSED(aclmdlDestroyAIPP, kApiNotSupported)
REFUSED(aclmdlSetAIPPInputFormat, kApiNotSupported)
REFUSED(aclmdlSetAIPPSrcImageSize, kApiNotSupported)
REFUSED(aclmdlSetInputAIPP, kApiNotSupported)
REFUSED(aclmdlGetAippDataSize, kApiNotSupported)
REFUSED(aclmdlSetAIPPCscParams, kApiNotSupported)
REFUSED(aclmdlSetAIPPRbuvSwapSwitch, kApiNotSupported)
REFUSED(aclmdlSetAIPPAxSwapSwitch, kApiNotSupported)
REFUSED(aclmdlSetAIPPScfParams, kApiNotSupported)
REFUSED(aclmdlSetAIPPCropParams, kApiNotSupported)
REFUSED(aclmdlSetAIPPPaddingParams, kApiNotSupported)
REFUSED(aclmdlSetAIPPDtcPixelMean, kApiNotSupported)
REFUSED(aclmdlSetAIPPDtcPixelMin, kApiNotSupported)
REFUSED(aclmdlSetAIPPPixelVarReci, kApiNotSupported)
REFUSED(aclmdlSetAIPPByInputIndex, kApiNotSupported)
REFUSED(acltdtGrantQueue, kFeatureUnsupported)
REFUSED(acltdtAttachQueue, kFeatureUnsupported)
REFUSED_POINTER(acltdtCreateChannel, kFeatureUnsupported)
REFUSED_POINTER(acltdtCreateChannelWithCapacity, kFeatureUnsupported)
REFUSED(acltdtStopChannel, kFeatureUnsupported)
REFUSED(acltdtDestroyChannel, kFeatureUnsupported)
REFUSED(acltdtCleanChannel, kFeatureUnsupported)
REFUSED(acltdtSendTensor, kFeatureUnsupported)
REFUSED(acltdtReceiveTensor, kFeatureUnsupported)
REFUSED(acltdtQueryChannelSize, kFeatureUnsupported)
REFUSED_POINTER(acltdtCreateDataItem, kFeatureUnsupported)
REFUSED(acltdtDestroyDataItem, kFeatureUnsupported)
REFUSED_POINTER(acltdtCreateDataset, kFeatureUnsupported)
REFUSED(acltdtDestroyDataset, kFeatureUnsupported)
REFUSED(acltdtAddDataItem, kFeatureUnsupported)
REFUSED_POINTER(acltdtGetDataItem, kFeatureUnsupported)
NO_COUNT(acltdtGetDatasetSize)
REFUSED_POINTER(acltdtGetDatasetName, kFeatureUnsupported)
NO_NUMBER(acltdtGetTensorTypeFromItem)
NO_NUMBER(acltdtGetDataTypeFromItem)
REFUSED_POINTER(acltdtGetDataAddrFromItem, kFeatureUnsupported)
NO_COUNT(acltdtGetDataSizeFromItem)
NO_COUNT(acltdtGetDimNumFromItem)
REFUSED(acltdtGetDimsFromItem, kFeatureUnsupported)
REFUSED(acltdtGetSliceInfoFromItem, kFeatureUnsupported)

}  // extern "C"
