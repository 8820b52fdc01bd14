"""The page of the scope, and that every function of the headers is there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def scope() -> ModuleType:
    """The module that writes the page."""
    spec = importlib.util.spec_from_file_location("scope_page", HERE.parent / "scope_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_library_has(scope: ModuleType) -> None:
    assert scope.PAGE.read_text(encoding="utf-8") == scope.page(), "run plugins/pne_npu/emulator/scope_page.py"


MUST = """
aclInit aclFinalize aclGetRecentErrMsg aclrtGetVersion aclrtGetSocName aclDataTypeSize aclFloat16ToFloat
aclFloatToFloat16 aclrtSetDevice aclrtResetDevice aclrtResetDeviceForce aclrtGetDevice aclrtGetDeviceCount
aclrtGetRunMode aclrtSynchronizeDevice aclrtCreateContext aclrtDestroyContext aclrtSetCurrentContext
aclrtGetCurrentContext aclrtCreateStream aclrtCreateStreamWithConfig aclrtDestroyStream aclrtDestroyStreamForce
aclrtSynchronizeStream aclrtSynchronizeStreamWithTimeout aclrtStreamQuery aclrtStreamWaitEvent aclrtCreateEvent
aclrtCreateEventWithFlag aclrtDestroyEvent aclrtRecordEvent aclrtQueryEventStatus aclrtSynchronizeEvent
aclrtEventElapsedTime aclrtSubscribeReport aclrtUnSubscribeReport aclrtLaunchCallback aclrtProcessReport
aclrtLaunchHostFunc aclrtMalloc aclrtFree aclrtMallocHost aclrtFreeHost aclrtMemcpy aclrtMemcpyAsync aclrtMemset
aclrtMemsetAsync aclrtGetMemInfo aclrtPointerGetAttributes aclmdlLoadFromFile aclmdlLoadFromMem
aclmdlLoadFromFileWithMem aclmdlLoadFromMemWithMem aclmdlUnload aclmdlQuerySize aclmdlQuerySizeFromMem aclmdlExecute
aclmdlExecuteAsync aclmdlCreateDesc aclmdlGetDesc aclmdlGetDescFromFile aclmdlGetDescFromMem aclmdlGetCurOutputDims
aclmdlSetDynamicBatchSize aclmdlSetDynamicHWSize aclmdlSetInputDynamicDims aclCreateDataBuffer aclmdlCreateDataset
"""


SHOULD = """
aclFinalizeReference aclrtPeekAtLastError aclrtGetLastError aclrtGetErrorVerbose aclsysGetVersionStr aclsysGetVersionNum
aclsysGetCANNVersion aclAppLog aclrtMallocAlign32 aclrtMallocCached aclrtMallocWithCfg aclrtMemcpy2d aclrtMemcpy2dAsync
aclrtHostRegister aclrtHostUnregister aclrtFreeWithDevSync aclrtStreamGetId aclrtStreamGetPriority aclrtStreamGetFlags
aclrtSetStreamFailureMode aclrtGetResInCurrentThread aclrtGetDeviceResLimit aclrtGetStreamAvailableNum
aclrtDeviceGetStreamPriorityRange aclrtCtxGetCurrentDefaultStream aclrtGetDeviceInfo aclrtQueryDeviceStatus
aclrtCreateEventExWithFlag aclrtResetEvent aclrtQueryEvent aclrtQueryEventWaitStatus aclrtSynchronizeEventWithTimeout
aclrtEventGetTimestamp aclrtSetTsDevice aclmdlCreateConfigHandle aclmdlDestroyConfigHandle aclmdlSetConfigOpt
aclmdlLoadWithConfig aclmdlExecuteV2 aclmdlCreateExecConfigHandle aclmdlSetExecConfigOpt aclrtDeviceCanAccessPeer
aclrtDeviceEnablePeerAccess aclmdlGetAippType aclmdlGetFirstAippInfo aclmdlLoadFromFileWithQ aclmdlLoadFromMemWithQ
"""
FAMILIES = {"acl_tdt_queue.h": {"acltdtGrantQueue", "acltdtAttachQueue"}}
"""Headers of which everything must be there, but for what the vendor has in special deployments only."""


def test_nothing_that_must_be_there_is_refused(scope: ModuleType) -> None:
    refused = set(scope.refusals())
    there = {name for header in scope.HEADERS for name in scope.functions(header)} - refused
    assert set(re.findall(r"\w+", MUST + SHOULD)) <= there
    for header, special in FAMILIES.items():
        assert set(scope.functions(header)) & refused == special


def test_every_function_that_is_there_is_tried_from_c_or_the_binding(scope: ModuleType) -> None:
    """By name: it stands in one of the test programs, or in the engine's own declarations."""
    programs = (HERE / "programs").glob("*.[ch]*")
    binding = HERE.parents[1] / "src/dflow_pne_npu/bindings/declarations.py"
    text = "".join(path.read_text(encoding="utf-8") for path in (*programs, binding))
    there = {name for header in scope.HEADERS for name in scope.functions(header)} - set(scope.refusals())
    assert sorted(there - set(re.findall(r"\bacl\w+", text))) == []


def test_refused_functions_say_so(scope: ModuleType) -> None:
    import ctypes

    library = ctypes.CDLL(str(scope.HOME / "lib64/libascendcl.so"))
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    for name, code in scope.refusals().items():
        function = getattr(library, name)
        function.restype = ctypes.c_void_p if code == "NULL" else ctypes.c_size_t if code == "0" else ctypes.c_uint32
        assert function() == (None if code == "NULL" else int(code, 0)), name
        if code.isdigit() and code != "0":
            assert name in library.aclGetRecentErrMsg().decode()
