"""Graphs as upstream's native module builds them, over those of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dataflow import codes
from dataflow.batching import CountBatch, TimeBatch
from dataflow.data_type import get_python_dtype_from_dwrapper_dtype
from dataflow.data_wrapper import DataType
from dataflow.points import init_value
from dataflow.runtime import given_options
from dflow_core import graph as core
from dflow_core.errors import DflowError

__all__ = [
    "DataFlowInputAttr",
    "FlowData",
    "FlowGraph",
    "FlowGraphPp",
    "FlowNode",
    "FlowOperator",
    "FunctionPp",
    "GraphPp",
    "Operator",
    "ProcessPoint",
    "ReturnMessage",
    "load_flow_graph_pp",
    "load_graph_pp",
]


@dataclass
class ReturnMessage:
    """How a call ended.

    Args:
        ret_code: 0 is good.
        error_msg: What was wrong.
    """

    ret_code: int = codes.SUCCESS
    error_msg: str = ""


@dataclass
class DataFlowInputAttr:
    """How the messages of an input are put together.

    Args:
        attr_type: Which kind of batch.
        attr_value: The batch.
    """

    attr_type: int = 0
    attr_value: TimeBatch | CountBatch | None = None


class ProcessPoint:
    """What a node does.

    Args:
        impl: The same for the core.
    """

    def __init__(self, impl: core.ProcessPoint) -> None:
        self.impl = impl


class GraphPp(ProcessPoint):
    """A model file."""


class FlowGraphPp(ProcessPoint):
    """A graph to be invoked."""


class FunctionPp(ProcessPoint):
    """A function project.

    Args:
        name: Name of the process point.
    """

    def __init__(self, name: str) -> None:
        self._point = core.FuncProcessPoint("", name)
        super().__init__(self._point)

    def set_compile_config(self, path: str) -> None:
        """Name its config file."""
        self._point.compile_config_path = path

    def set_init_param(self, name: str, value: object) -> None:
        """Set what the function reads when it is initialised."""
        native = isinstance(value, DataType)
        self._point.set_init_param(name, init_value(get_python_dtype_from_dwrapper_dtype(value) if native else value))

    def add_invoked_closure(self, key: str, point: GraphPp | FlowGraphPp) -> None:
        """Register what the function may call."""
        assert isinstance(point.impl, (core.GraphProcessPoint, core.FlowGraphProcessPoint))
        self._point.add_invoked_closure(key, point.impl)


class Operator:
    """What a graph is made of."""

    def set_attr(self, name: str, value: bool | int | str) -> None:
        """Set an attribute; only nodes have some."""


class FlowOperator(Operator):
    """An input or a node."""


class FlowData(FlowOperator):
    """An input of a graph.

    Args:
        name: Its name.
        index: Its position.
    """

    def __init__(self, name: str, index: int) -> None:
        self.impl = core.FlowData(name)
        self.index = index


class FlowNode(FlowOperator):
    """A step of a graph.

    Args:
        name: Its name.
        input_num, output_num: Its ports.
    """

    def __init__(self, name: str, input_num: int, output_num: int) -> None:
        self.impl = core.FlowNode(input_num, output_num, name)

    def set_attr(self, name: str, value: bool | int | str) -> None:
        """Set an attribute of the node."""
        if name in core.NODE_ATTRIBUTES:
            self.impl.set_attr(name, value)

    def set_input(self, dst_index: int, source: FlowData | FlowNode, src_index: int = 0) -> FlowNode:
        """Wire an input; gives the node."""
        wire = source.impl if isinstance(source, FlowData) else core.FlowOutput(source.impl, src_index)
        self.impl.wire([wire], [dst_index], [])
        return self

    def add_pp(self, point: ProcessPoint) -> FlowNode:
        """Say what the node does; gives the node."""
        self.impl.add_process_point(point.impl)
        return self

    def map_input(
        self, node_index: int, point: ProcessPoint, point_index: int, attrs: Sequence[DataFlowInputAttr] = ()
    ) -> FlowNode:
        """Tie an input to one of the process point; gives the node."""
        batches = [attr.attr_value.to_core() for attr in attrs if attr.attr_value is not None]
        self.impl.map_input(node_index, point.impl, point_index, batches)
        return self

    def map_output(self, node_index: int, point: ProcessPoint, point_index: int) -> FlowNode:
        """Tie an output to one of the process point; gives the node."""
        self.impl.map_output(node_index, point.impl, point_index)
        return self

    def set_balance_scatter(self) -> None:
        """The node deals its outputs out."""
        self.impl.set_attr("_balance_scatter", True)

    def set_balance_gather(self) -> None:
        """The node collects what was dealt out."""
        self.impl.set_attr("_balance_gather", True)


class FlowGraph:
    """A graph that is being put together.

    Args:
        name: Its name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[FlowData] = []
        self.maps_freely = False
        self._outputs: list[core.FlowOutput] = []
        self._alignment: tuple[int, float | None, bool] | None = None
        self._catches = False

    def set_inputs(self, inputs: Sequence[FlowData]) -> FlowGraph:
        """Its inputs; gives the graph."""
        self.inputs = sorted(inputs, key=lambda data: data.index)
        return self

    def set_outputs(self, outputs: Sequence[tuple[FlowNode, Sequence[int]]]) -> FlowGraph:
        """Its outputs, by node; gives the graph."""
        self._outputs = [core.FlowOutput(node.impl, index) for node, indexes in outputs for index in indexes]
        return self

    def set_contains_n_mapping_node(self, contains: bool) -> FlowGraph:
        """Whether some node gives more or fewer messages than it gets; gives the graph."""
        self.maps_freely = contains
        return self

    def set_inputs_align_attrs(self, max_cache_num: int, timeout: int, dropout: bool = False) -> FlowGraph:
        """Limit how long parts wait for each other, in milliseconds; gives the graph."""
        self._alignment = max_cache_num, None if timeout < 0 else timeout / 1000, dropout
        return self

    def set_exception_catch(self, enable: bool) -> FlowGraph:
        """Let functions raise exceptions; gives the graph."""
        self._catches = enable
        return self

    def set_graphpp_builder_async(self, _is_async: bool) -> FlowGraph:
        """Model files are read in parallel in any case; gives the graph."""
        return self

    def build(self, options: Mapping[str, str]) -> core.FlowGraph:
        """The graph of the core."""
        built = core.FlowGraph(self._outputs, given_options(options), self.name)
        if self._alignment is not None:
            built.set_inputs_align_attrs(*self._alignment)
        built.set_exception_catch(self._catches)
        return built

    def ports(self, graph: core.FlowGraph) -> list[int]:
        """For each input, its position in the graph of the core, which sorts by name."""
        return [graph.inputs.index(data.impl) for data in self.inputs]


def load_graph_pp(
    framework: str, file: str, params: Mapping[str, str], config: str, name: str
) -> tuple[ReturnMessage, GraphPp | None]:
    """A model file as process point.

    Args:
        framework: `tensorflow`, `onnx` or `mindspore`.
        file: The file.
        params: What its reader is told.
        config: The compile config file, or "".
        name: Name of the process point.
    """
    try:
        return ReturnMessage(), GraphPp(
            core.GraphProcessPoint(core.Framework[framework.upper()], file, params, config, name)
        )
    except (DflowError, KeyError) as error:
        return ReturnMessage(codes.PARAM_INVALID, str(error)), None


def load_flow_graph_pp(graph: FlowGraph, _config: str, name: str) -> tuple[ReturnMessage, FlowGraphPp | None]:
    """A graph as process point."""
    try:
        return ReturnMessage(), FlowGraphPp(core.FlowGraphProcessPoint(graph.build({}), name))
    except DflowError as error:
        return ReturnMessage(codes.PARAM_INVALID, str(error)), None
