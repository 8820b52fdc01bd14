"""Nodes, their inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from dataflow.batching import CountBatch, TimeBatch
from dataflow.data_type import core_type_of
from dataflow.point_base import Point
from dataflow.tensor import BaseData, Tensor, TensorDesc
from dataflow.utils import log
from dataflow.utils.errors import DfException
from dataflow.utils.name_scope import name_scope
from dflow_core import graph as core
from dflow_core.errors import DflowError
from dflow_core.types import TensorSpec

__all__ = ["FlowData", "FlowNode", "FlowOutput"]

_SCATTER, _GATHER = "_balance_scatter", "_balance_gather"


class FlowData:
    """An input of a graph, and the key its values are fed by.

    Args:
        data_cls: The class Tensor.
        schema: What is fed, if known; what differs is converted.
        name: Its name; inputs are numbered in the order of their names.

    Raises:
        DfException: another class, or a schema that is no TensorDesc.
    """

    def __init__(
        self, data_cls: type[BaseData] = Tensor, schema: TensorDesc | None = None, name: str | None = None
    ) -> None:
        if data_cls is not Tensor:
            raise DfException(f"data_cls must be Tensor, got {data_cls!r}")
        if schema is not None and type(schema) is not TensorDesc:
            raise DfException(f"schema must be a TensorDesc, got {schema!r}")
        with name_scope(name, "FlowData") as unique:
            self.name = unique
        self._data_cls = data_cls
        self._schema = schema
        spec = None if schema is None else TensorSpec(core_type_of(schema._dtype), tuple(schema._shape))
        self._impl = core.FlowData(self.name, spec)


class FlowOutput:
    """One output of a node.

    Args:
        node: The node.
        index: Which of its outputs.
    """

    def __init__(self, node: FlowNode, index: int) -> None:
        self.node = node
        self.index = index

    def to_core(self) -> core.FlowOutput:
        """The same for the core."""
        return core.FlowOutput(self.node._impl, self.index)


Wired = FlowOutput | tuple[FlowOutput, ...] | None


class FlowNode:
    """A step of a graph.

    Args:
        input_num, output_num: How many inputs and outputs it has.
        name: Its name; it becomes `name_1`, ... if it is taken.

    Raises:
        TypeError: a number that is none, or a name that is no text.
        DfException: a number that is out of range.
    """

    def __init__(self, input_num: int, output_num: int, name: str | None = None) -> None:
        for what, count in (("input_num", input_num), ("output_num", output_num)):
            if not isinstance(count, int):
                raise TypeError(f"{what} must be an int, got {count!r}")
        with name_scope(name, "FlowNode", namespace="FlowNode") as unique:
            self.name = unique
        self.input_num = input_num
        self.output_num = output_num
        self.alias: str | None = None
        self._faults: list[str] = []
        try:
            self._impl = core.FlowNode(input_num, output_num, self.name)
        except DflowError as error:
            raise DfException(error) from error
        self._input_anchors: list[FlowData | FlowOutput | None] = [None] * input_num
        self._output_anchors: list[FlowOutput | None] = [None] * output_num
        self._impl.set_attr("_flow_attr", True)

    def __call__(self, *inputs: FlowData | FlowOutput) -> Wired:
        """Wire all inputs; another call wires them anew.

        Returns:
            None, the output, or a tuple of the outputs.

        Raises:
            DfException: another number of inputs, an output of this node, or neither FlowData nor FlowOutput.
        """
        return self._build_flow_node(
            *inputs, input_indexes=range(self.input_num), output_indexes=range(self.output_num)
        )

    def _build_flow_node(
        self, *inputs: FlowData | FlowOutput, input_indexes: Sequence[int], output_indexes: Sequence[int]
    ) -> Wired:
        if len(inputs) != len(input_indexes):
            raise DfException(f"node {self.name} takes {len(input_indexes)} inputs, got {len(inputs)}")
        for port, source in zip(input_indexes, inputs):
            self._wire(port, source)
        outputs = tuple(FlowOutput(self, index) for index in output_indexes)
        for output in outputs:
            self._output_anchors[output.index] = output
        if not outputs:
            return None
        return outputs[0] if len(outputs) == 1 else outputs

    def _wire(self, port: int, source: object) -> None:
        if isinstance(source, FlowOutput):
            if source.node is self:
                raise DfException(f"node {self.name} cannot take its own output as input {port}")
            self._impl.wire([source.to_core()], [port], [])
        elif isinstance(source, FlowData):
            self._impl.wire([source._impl], [port], [])
        else:
            raise DfException(f"input {port} of node {self.name} must be FlowData or FlowOutput, got {source!r}")
        self._input_anchors[port] = source

    def add_process_point(self, pp: Point) -> None:
        """Say what the node does.

        Raises:
            DfException: not a process point.
        """
        if not isinstance(pp, Point):
            raise DfException(f"node {self.name}: not a process point: {pp!r}")
        self._impl.add_process_point(pp._impl)

    def map_input(
        self, node_input_index: int, pp: Point, pp_input_index: int,
        input_attrs: Sequence[TimeBatch | CountBatch] | None = None,
    ) -> None:
        """Tie an input of the node to one of its process point.

        Args:
            node_input_index: Input of the node.
            pp: The process point.
            pp_input_index: Input of the process point.
            input_attrs: A TimeBatch or a CountBatch.

        Raises:
            DfException: no such input, or arguments of another type.
            TypeError: a negative index.
        """
        self._check_port(node_input_index, self.input_num, "input", pp)
        attrs: list[core.Batch] = []
        for attr in input_attrs or []:
            if not isinstance(attr, (TimeBatch, CountBatch)):
                raise DfException(f"input attributes are TimeBatch or CountBatch, got {attr!r}")
            try:
                attrs.append(attr.to_core())
            except DflowError as error:
                self.refuse(f"input {node_input_index}: {error}")
        self._impl.map_input(node_input_index, pp._impl, pp_input_index, attrs)

    def map_output(self, node_output_index: int, pp: Point, pp_output_index: int) -> None:
        """Tie an output of the node to one of its process point; errors as for `map_input`."""
        self._check_port(node_output_index, self.output_num, "output", pp)
        self._impl.map_output(node_output_index, pp._impl, pp_output_index)

    def set_balance_scatter(self) -> None:
        """The node deals its outputs out over the instances behind it."""
        self._balance(_SCATTER, _GATHER)

    def set_balance_gather(self) -> None:
        """The node collects what was dealt out."""
        self._balance(_GATHER, _SCATTER)

    def set_attr(self, attr_name: str, attr_value: bool | int | str) -> None:
        """Set an attribute; those without meaning here are told in the log.

        Raises:
            TypeError: a name that is no text, or a value that is neither bool, int nor str.
        """
        if not isinstance(attr_name, str):
            raise TypeError(f"attr_name must be a str, got {attr_name!r}")
        if not isinstance(attr_value, (bool, int, str)):
            raise TypeError(f"attr_value must be a bool, int or str, got {attr_value!r}")
        if attr_name in core.NODE_ATTRIBUTES:
            self._impl.set_attr(attr_name, attr_value)
        else:
            log.warning("attribute %s of node %s is unknown and has no effect", attr_name, self.name)

    def set_alias(self, name: str) -> FlowNode:
        """Give the node a second name, which deploy files use; gives the node.

        Raises:
            ValueError: another node has the name.
        """
        if name != self.name:
            with name_scope(name, namespace="FlowNode", auto_name=False):
                pass
        self.alias = name
        if name != self.name:
            self._impl.set_alias(name)
        return self

    def refuse(self, fault: str) -> None:
        """Note why no graph with this node can be built; the first feed says so."""
        log.error("node %s: %s", self.name, fault)
        self._faults.append(fault)

    @property
    def faults(self) -> tuple[str, ...]:
        """Why no graph with this node can be built."""
        return tuple(self._faults)

    def _balance(self, wanted: str, other: str) -> None:
        if self._impl.attrs.get(other):
            log.error("node %s: scatter and gather exclude each other; the first one stays", self.name)
            return
        self._impl.set_attr(wanted, True)

    def _check_port(self, index: int, count: int, side: str, pp: object) -> None:
        if not isinstance(pp, Point):
            raise DfException(f"node {self.name}: not a process point: {pp!r}")
        if not isinstance(index, int) or index < 0:
            raise TypeError(f"{side} index must be an int from 0 on, got {index!r}")
        if index >= count:
            raise DfException(f"node {self.name} has {count} {side}s, got index {index}")
