"""What upstream's native module for graphs has, over the core: for tools that were written against it."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import numpy as np

from dataflow import codes, runtime
from dataflow.batching import CountBatch, TimeBatch
from dataflow.data_type import DType, get_python_dtype_from_dwrapper_dtype
from dataflow.data_wrapper import DataType
from dataflow.flow_func import natives
from dataflow.flow_func.natives import FlowMsg
from dataflow.flow_info import FlowInfo as PyFlowInfo
from dataflow.native_graph import (
    DataFlowInputAttr,
    FlowData,
    FlowGraph,
    FlowGraphPp,
    FlowNode,
    FlowOperator,
    FunctionPp,
    GraphPp,
    Operator,
    ProcessPoint,
    ReturnMessage,
    load_flow_graph_pp,
    load_graph_pp,
)
from dataflow.results import Item
from dataflow.runner import GraphRunner, logged_code
from dataflow.settings import is_compile_only, translated
from dataflow.utils.errors import DfException
from dataflow.values import tensor_of
from dflow_core import message
from dflow_core.errors import DflowError
from dflow_core.message import DataFlag, MsgInfo
from dflow_core.session import DFlowSession as CoreSession
from dflow_core.types import Array

__all__ = [
    "CountBatch",
    "DFlowSession",
    "DataFlowAttrType",
    "DataFlowInputAttr",
    "FlowBufferFactory",
    "FlowData",
    "FlowGraph",
    "FlowGraphPp",
    "FlowInfo",
    "FlowMsg",
    "FlowNode",
    "FlowOperator",
    "FunctionPp",
    "GraphPp",
    "MsgType",
    "Operator",
    "ProcessPoint",
    "ReturnMessage",
    "Tensor",
    "TimeBatch",
    "ge_finalize",
    "ge_initialize",
    "get_dflow_pybind11_build_abi",
    "init_datatype_manager",
    "load_flow_graph_pp",
    "load_graph_pp",
]

PARAM_INVALID = codes.PARAM_INVALID
NOT_INIT = codes.NOT_INIT
SHAPE_INVALID = codes.SHAPE_INVALID
DATATYPE_INVALID = codes.DATATYPE_INVALID
SUBHEALTHY = codes.SUBHEALTHY
INNER_ERROR = codes.INNER_ERROR


class MsgType(enum.IntEnum):
    """What a message carries."""

    MSG_TYPE_TENSOR_DATA = 0
    MSG_TYPE_RAW_MSG = 1


MSG_TYPE_TENSOR_DATA = MsgType.MSG_TYPE_TENSOR_DATA
MSG_TYPE_RAW_MSG = MsgType.MSG_TYPE_RAW_MSG


class DataFlowAttrType(enum.IntEnum):
    """Kinds of batches."""

    COUNT_BATCH = 0
    TIME_BATCH = 1


class Tensor(natives.Tensor):
    """A tensor on the graph side."""

    def clone(self) -> Tensor:
        """A copy."""
        return Tensor(self.native_array().copy())

    def get_string_tensor(self) -> list[bytes]:
        """The texts of a tensor of strings."""
        items = self.native_array().ravel().tolist()
        return [item if isinstance(item, bytes) else str(item).encode() for item in items]


class FlowInfo(PyFlowInfo):
    """What goes with a transaction."""

    def set_user_data(  # type: ignore[override]  # the native signature
        self, user_data: bytes | bytearray | memoryview, size: int = 0, offset: int = 0
    ) -> None:
        """Write the first `size` bytes of a buffer."""
        super().set_user_data(bytes(user_data)[: size or None], offset)


class FlowBufferFactory:
    """Makes messages."""

    @staticmethod
    def alloc_tensor_msg(shape: Sequence[int], dtype: DType | DataType, align: int = 64) -> FlowMsg:
        """A tensor message to fill."""
        found = dtype if isinstance(dtype, DType) else get_python_dtype_from_dwrapper_dtype(dtype)
        return FlowMsg(message.encode(runtime.alloc_tensor(shape, found, align).numpy(), MsgInfo()))

    @staticmethod
    def alloc_raw_data_msg(size: int, align: int = 64) -> FlowMsg:
        """A raw message to fill; `align` is not looked at."""
        return FlowMsg(message.FlowMsg(MsgInfo(msg_type=MSG_TYPE_RAW_MSG), np.zeros(size, np.uint8)))

    @staticmethod
    def alloc_empty_data_msg(msg_type: int = MSG_TYPE_TENSOR_DATA) -> FlowMsg:
        """A message without data."""
        return FlowMsg(message.FlowMsg(MsgInfo(msg_type=int(msg_type), data_flag=DataFlag.NULL)))

    @staticmethod
    def to_tensor_flow_msg(tensor: natives.Tensor) -> FlowMsg:
        """A message with a tensor, copied."""
        return FlowMsg(message.encode(tensor.native_array(), MsgInfo()))

    @staticmethod
    def to_raw_data_flow_msg(buffer: bytes | bytearray | memoryview) -> FlowMsg:
        """A raw message with bytes, copied."""
        return FlowMsg(message.FlowMsg(MsgInfo(msg_type=MSG_TYPE_RAW_MSG), np.frombuffer(bytes(buffer), np.uint8)))


class DFlowSession:
    """Runs graphs by number.

    Args:
        options: Options of all of them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._session = CoreSession(translated(options, "session"))
        self._runners: dict[int, tuple[GraphRunner, list[int]]] = {}

    def add_flow_graph(self, graph_id: int, graph: FlowGraph, options: Mapping[str, str]) -> ReturnMessage:
        """Add a graph; the first feed compiles and starts it."""
        try:
            built = graph.build(options)
            ports = graph.ports(built)
        except (DflowError, ValueError) as error:
            return ReturnMessage(codes.FAILED, str(error))
        runner = GraphRunner(built, self._session, is_compile_only(self._options, options))
        self._runners[graph_id] = runner, ports
        return ReturnMessage()

    def feed_data(
        self, graph_id: int, indexes: Sequence[int], tensors: Sequence[natives.Tensor], info: PyFlowInfo, timeout: int
    ) -> ReturnMessage:
        """Feed tensors to inputs; none with the EOS flag is the end of a sequence."""
        return self._feed(graph_id, indexes, [tensor.native_array() for tensor in tensors], info, timeout)

    def feed_flow_msg(
        self, graph_id: int, indexes: Sequence[int], msgs: Sequence[FlowMsg], timeout: int
    ) -> ReturnMessage:
        """Feed messages to inputs."""
        return self._feed(graph_id, indexes, [msg.core for msg in msgs], None, timeout)

    def fetch_data(
        self, graph_id: int, indexes: Sequence[int], timeout: int, writable_buffer: bool = False
    ) -> tuple[ReturnMessage, list[Tensor], PyFlowInfo]:
        """Tensors of outputs, and what went with the first."""
        items, code = self._take(graph_id, indexes, timeout)
        code = code or logged_code(f"{graph_id}", items)
        if code:
            return ReturnMessage(code, f"code {code}"), [], FlowInfo()
        msgs = [item for item in items if isinstance(item, message.FlowMsg)]
        arrays: list[Array] = [tensor_of(msg)._impl for msg in msgs if not msg.is_null]
        return ReturnMessage(), [Tensor(a.copy() if writable_buffer else a) for a in arrays], FlowInfo.of(msgs[0].info)

    def fetch_flow_msg(
        self, graph_id: int, indexes: Sequence[int], timeout: int
    ) -> tuple[ReturnMessage, list[FlowMsg]]:
        """Messages of outputs; an error of a function is a message with its code."""
        items, code = self._take(graph_id, indexes, timeout)
        if code:
            return ReturnMessage(code, f"code {code}"), []
        return ReturnMessage(), [_message_of(item) for item in items]

    def _feed(
        self, graph_id: int, indexes: Sequence[int], values: Sequence[object], info: PyFlowInfo | None, timeout: int
    ) -> ReturnMessage:
        if graph_id not in self._runners or len(indexes) != len(values):
            return ReturnMessage(codes.FAILED, "no such graph, or not one value for each index")
        runner, ports = self._runners[graph_id]
        if any(not 0 <= index < len(ports) for index in indexes):
            return ReturnMessage(codes.FAILED, "no such input")
        given: dict[int, object] = {ports[index]: value for index, value in zip(indexes, values)}
        if not given:
            given = dict.fromkeys(ports)
        feed_info = None if info is None else info.to_core(keep_id=True)
        code = runner.start() or runner.feed(given, feed_info, timeout)
        return ReturnMessage(code, "" if code == codes.SUCCESS else f"code {code}: see the log")

    def _take(self, graph_id: int, indexes: Sequence[int], timeout: int) -> tuple[list[Item], int]:
        if graph_id not in self._runners:
            return [], codes.FAILED
        return self._runners[graph_id][0].take(list(indexes), timeout)

    def close(self) -> None:
        """End every graph."""
        self._session.close()


def ge_initialize(options: dict[str, str]) -> int:
    """Set the options of the process; 0, or the code of what was wrong."""
    try:
        runtime.init(options)
    except DfException as error:
        return error.error_code
    return codes.SUCCESS


def ge_finalize() -> int:
    """End every graph of the process."""
    runtime.finalize()
    return codes.SUCCESS


def init_datatype_manager(_table: Mapping[object, object]) -> None:
    """Upstream hands its table of types over here; ours is fixed, so there is nothing to do."""
    del _table


def get_dflow_pybind11_build_abi() -> str:
    """Nothing is built with pybind11 here."""
    return ""


def _message_of(item: Item) -> FlowMsg:
    if isinstance(item, message.FlowMsg):
        return FlowMsg(item)
    code = logged_code("", [item])
    return FlowMsg(message.FlowMsg(MsgInfo(ret_code=code if code <= codes.LARGEST else -1, data_flag=DataFlag.NULL)))
