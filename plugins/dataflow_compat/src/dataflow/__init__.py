"""The Python interface of CANN's DataFlow, translated onto dflow: `import dataflow as df`.

Names, return codes, milliseconds and exceptions are upstream's. Everything is done by `dflow_core`; where this differs
from upstream is listed in docs/reference/dataflow-differences.md.
"""

from dataflow import dataflow, utils
from dataflow.data_type import (
    DT_BOOL,
    DT_DOUBLE,
    DT_FLOAT,
    DT_FLOAT16,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_STRING,
    DT_UINT8,
    DT_UINT16,
    DT_UINT32,
    DT_UINT64,
)
from dataflow.dataflow import (
    CountBatch,
    FlowData,
    FlowFlag,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowInfo,
    FlowNode,
    FlowOutput,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    Tensor,
    TensorDesc,
    TimeBatch,
    alloc_tensor,
    finalize,
    init,
)
from dataflow.plugin.torch.torch_plugin import npu_model
from dataflow.pyflow import method, pyflow
from dataflow.registered import msg_type_register
from dataflow.utils.utils import (
    DfAbortException,
    DfException,
    get_running_device_id,
    get_running_instance_id,
    get_running_instance_num,
)

__version__ = "0.1.0"

__all__ = [
    "DT_BOOL",
    "DT_DOUBLE",
    "DT_FLOAT",
    "DT_FLOAT16",
    "DT_INT8",
    "DT_INT16",
    "DT_INT32",
    "DT_INT64",
    "DT_STRING",
    "DT_UINT8",
    "DT_UINT16",
    "DT_UINT32",
    "DT_UINT64",
    "CountBatch",
    "DfAbortException",
    "DfException",
    "FlowData",
    "FlowFlag",
    "FlowGraph",
    "FlowGraphProcessPoint",
    "FlowInfo",
    "FlowNode",
    "FlowOutput",
    "Framework",
    "FuncProcessPoint",
    "GraphProcessPoint",
    "Tensor",
    "TensorDesc",
    "TimeBatch",
    "alloc_tensor",
    "dataflow",
    "finalize",
    "get_running_device_id",
    "get_running_instance_id",
    "get_running_instance_num",
    "init",
    "method",
    "msg_type_register",
    "npu_model",
    "pyflow",
    "utils",
]
