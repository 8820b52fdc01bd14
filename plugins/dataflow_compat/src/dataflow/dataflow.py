"""The module path under which scripts find the graph side: `dataflow.dataflow`, also `df.dataflow`."""

from __future__ import annotations

from dataflow.batching import CountBatch, TimeBatch
from dataflow.flow_graph import FlowGraph
from dataflow.flow_info import FlowFlag, FlowInfo
from dataflow.nodes import FlowData, FlowNode, FlowOutput
from dataflow.points import FlowGraphProcessPoint, Framework, FuncProcessPoint, GraphProcessPoint
from dataflow.runtime import Runtime, alloc_tensor, finalize, init
from dataflow.tensor import BaseData, Tensor, TensorDesc
from dataflow.utils.errors import DfAbortException, DfException
from dataflow.utils.msg_type_register import MSG_TYPE_PICKLED_MSG

MSG_TYPE_TENSOR_DATA = 0
MSG_TYPE_USER_DEFINE_START = 1024

__all__ = [
    "MSG_TYPE_PICKLED_MSG",
    "MSG_TYPE_TENSOR_DATA",
    "MSG_TYPE_USER_DEFINE_START",
    "BaseData",
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
    "finalize",
    "init",
]


def __getattr__(name: str) -> object:
    if name == "_global_options":
        return Runtime.options
    if name == "_global_context":
        return Runtime.context
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
