"""Nodes, what feeds them and what works in them.

A node has numbered inputs and outputs. Calling it wires its inputs and gives its outputs. Its process point says what
it does; when nothing else is said, node input i is input i of the point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import ClassVar, Protocol, TypeAlias

from dflow_core.errors import Fault, GraphError, OptionError, UsageError
from dflow_core.graph.arguments import check_count, check_type, flat
from dflow_core.graph.attributes import AttrValue, QueueSettings, changed_options
from dflow_core.graph.batching import Batch, CountBatch, TimeBatch
from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.names import Name
from dflow_core.types import FuncSpec, NodeOptions

MAX_PORTS = 1024


@dataclass(frozen=True, slots=True)
class FlowOutput:
    """One output of a node, to feed other nodes with or to end a graph with."""

    node: FlowNode
    index: int

    @property
    def name(self) -> str:
        """`<node>` if the node has one output, else `<node>:<index>`."""
        return self.node.name if self.node.output_num == 1 else f"{self.node.name}:{self.index}"

    def __repr__(self) -> str:
        return f"FlowOutput({self.name!r})"


Source: TypeAlias = FlowData | FlowOutput
Wire: TypeAlias = FlowData | FlowOutput | tuple[FlowOutput, ...] | None
"""What may be given where an output is wanted: also all that calling a node gave (None never fits)."""


class GraphView(Protocol):
    """What can be read of a graph."""

    @property
    def name(self) -> str:
        """Name of the graph."""

    @property
    def options(self) -> Mapping[str, str]:
        """Options of the graph."""

    @property
    def inputs(self) -> tuple[FlowData, ...]:
        """What the caller feeds, in order."""

    @property
    def nodes(self) -> tuple[FlowNode, ...]:
        """Every node, producers before consumers."""

    @property
    def outputs(self) -> tuple[FlowOutput, ...]:
        """What the caller fetches, in order."""


class ProcessPoint:
    """What a node does. Data only: nothing is opened or run. Base of all kinds, also of those that plugins add.

    Args:
        name: Name of the point; without one that of its class.
    """

    kind: ClassVar[str] = ""
    name: str

    def __init__(self, name: str | None = None) -> None:
        check_type(name, (str, type(None)), "a text as name of a process point", None)
        self.name = type(self).__name__ if name is None else name

    @property
    def functions(self) -> tuple[FuncSpec, ...]:
        """Its functions and the ports they own; empty for one function that owns all ports."""
        return ()

    @property
    def nested(self) -> GraphView | None:
        """The graph inside, if it is one."""
        return None

    @property
    def invoked(self) -> Mapping[str, ProcessPoint]:
        """What its functions may call while they work, by name."""
        return MappingProxyType({})

    @property
    def is_one_to_one(self) -> bool:
        """Whether each set of inputs surely gives one message on each output, unless `functions` says otherwise."""
        return False

    def caption(self) -> str:
        """What it is, in a few words, for drawings."""
        return self.kind or type(self).__name__

    def node_name(self) -> str:
        """What a node made from this point is called if nobody says."""
        return "FlowNode" if self.name == type(self).__name__ else self.name

    def fnode(self, input_num: int, output_num: int, name: str | None = None) -> FlowNode:
        """A node that does this.

        Args:
            input_num, output_num: Ports of the node.
            name: Name of the node; without one it is made from the point's.
        """
        node = FlowNode(input_num, output_num, name)
        node.add_process_point(self)
        return node

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


@dataclass(frozen=True, slots=True)
class PortMap:
    """Node port that is tied to a port of a process point, and how its messages are put together."""

    node_index: int
    point: ProcessPoint
    point_index: int
    attrs: tuple[Batch, ...] = ()


class FlowNode:
    """A step of a graph.

    Args:
        input_num, output_num: How many inputs and outputs it has (0 to 1024).
        name: Its name; without one a graph makes one when it is built.

    Raises:
        UsageError: a count or the name is of the wrong type, or a count is out of range.
    """

    def __init__(self, input_num: int, output_num: int, name: str | Name | None = None) -> None:
        check_count(input_num, "input_num", MAX_PORTS)
        check_count(output_num, "output_num", MAX_PORTS)
        self._name = name if isinstance(name, Name) else Name(name, "FlowNode")
        self.input_num = input_num
        self.output_num = output_num
        self.alias: str | None = None
        self.options = NodeOptions()
        self._sources: list[Source | None] = [None] * input_num
        self._points: list[ProcessPoint] = []
        self._input_maps: list[PortMap] = []
        self._output_maps: list[PortMap] = []
        self._attrs: dict[str, AttrValue] = {}
        self._queues: dict[int, QueueSettings] = {}
        self.depth = 0

    @property
    def name(self) -> str:
        """Its name, name scopes included; an automatic one is final once a graph has been built."""
        return self._name.text

    @property
    def sources(self) -> tuple[Source | None, ...]:
        """What feeds each input; None where nothing does."""
        return tuple(self._sources)

    @property
    def point(self) -> ProcessPoint | None:
        """Its process point, or None as long as it has none."""
        return self._points[0] if self._points else None

    @property
    def points(self) -> tuple[ProcessPoint, ...]:
        """Every process point that was added; more than one is a fault of the graph."""
        return tuple(self._points)

    @property
    def input_maps(self) -> tuple[PortMap, ...]:
        """What `map_input` was called with."""
        return tuple(self._input_maps)

    @property
    def output_maps(self) -> tuple[PortMap, ...]:
        """What `map_output` was called with."""
        return tuple(self._output_maps)

    @property
    def attrs(self) -> Mapping[str, AttrValue]:
        """What `set_attr` was called with."""
        return MappingProxyType(self._attrs)

    @property
    def queues(self) -> Mapping[int, QueueSettings]:
        """What `set_queue` was called with, by output."""
        return MappingProxyType(self._queues)

    @property
    def outputs(self) -> tuple[FlowOutput, ...]:
        """Its outputs."""
        return tuple(FlowOutput(self, i) for i in range(self.output_num))

    @property
    def engine(self) -> str:
        """Id of the engine the user wants for it, or ""."""
        return str(self._attrs.get("engine", ""))

    def point_inputs(self) -> tuple[int, ...]:
        """For each node input the point's input it is tied to."""
        mapped = {m.node_index: m.point_index for m in self._input_maps}
        return tuple(mapped.get(i, i) for i in range(self.input_num))

    def point_outputs(self) -> tuple[int, ...]:
        """For each node output the point's output it is tied to."""
        mapped = {m.node_index: m.point_index for m in self._output_maps}
        return tuple(mapped.get(i, i) for i in range(self.output_num))

    def batching(self, index: int) -> tuple[Batch, ...]:
        """How messages of a node input are put together; more than one is a fault of the graph."""
        return tuple(attr for m in self._input_maps if m.node_index == index for attr in m.attrs)

    def queue(self, output_index: int) -> QueueSettings:
        """The queues behind an output, from `set_queue`, `set_options(depth=)` or the queue attributes."""
        own = self._queues.get(output_index, QueueSettings())
        by_attr = self._attrs.get("_flow_attr", True) is True
        depth = own.depth or self.depth
        if not depth and by_attr and type(given := self._attrs.get("_flow_attr_depth", 0)) is int:
            depth = max(given, 0)
        overwrite = by_attr and self._attrs.get("_flow_attr_enqueue_policy") == "OVERWRITE"
        overflow = "drop_oldest" if overwrite and output_index not in self._queues else own.overflow
        return QueueSettings(depth, overflow, own.max_age)

    def __call__(self, *inputs: Wire) -> FlowOutput | tuple[FlowOutput, ...] | None:
        """Wire all inputs; a second call wires them anew.

        Args:
            inputs: One FlowData or FlowOutput per input; what calling another node gave stands for all its outputs.

        Returns:
            None, the one output, or a tuple of all outputs.

        Raises:
            GraphError: the number of inputs is not `input_num`.
            UsageError: an input is neither FlowData nor FlowOutput.
        """
        return self.wire(flat(inputs), range(self.input_num), range(self.output_num))

    def wire(
        self, inputs: Sequence[Source | None], input_indexes: Sequence[int], output_indexes: Sequence[int]
    ) -> FlowOutput | tuple[FlowOutput, ...] | None:
        """Wire some of the inputs and give some of the outputs (one function of a node that has several).

        Raises:
            GraphError: another number of inputs than of `input_indexes`.
            UsageError: an input is neither FlowData nor FlowOutput. Nothing is wired then.
        """
        if len(inputs) != len(input_indexes):
            message = f"expected {len(input_indexes)} inputs, got {len(inputs)}"
            raise GraphError(self.name, [Fault("arity", self.name, "", message, "give one value for each input")])
        for port, source in zip(input_indexes, inputs):
            _check_source(source, port, self.name)
        for port, source in zip(input_indexes, inputs):
            self._sources[port] = source
        outputs = tuple(FlowOutput(self, i) for i in output_indexes)
        if not outputs:
            return None
        return outputs[0] if len(outputs) == 1 else outputs

    def add_process_point(self, point: ProcessPoint) -> None:
        """Say what the node does.

        Raises:
            UsageError: not a process point.
        """
        check_type(point, ProcessPoint, "a process point", self.name)
        self._points.append(point)
        self._name.rebase(point.node_name())

    def map_input(self, index: int, point: ProcessPoint, point_index: int, attrs: Sequence[Batch] = ()) -> None:
        """Tie a node input to an input of its process point; then all of them must be tied.

        Args:
            index: Input of the node.
            point: The process point it was given.
            point_index: Input of the point.
            attrs: At most one TimeBatch or CountBatch.

        Raises:
            UsageError: an attribute is neither TimeBatch nor CountBatch, or an index is no number.
        """
        for attr in attrs:
            check_type(attr, (TimeBatch, CountBatch), "TimeBatch or CountBatch", self.name)
        self._input_maps.append(self._port_map(index, point, point_index, tuple(attrs)))

    def map_output(self, index: int, point: ProcessPoint, point_index: int) -> None:
        """Tie a node output to an output of its process point; then all of them must be tied."""
        self._output_maps.append(self._port_map(index, point, point_index, ()))

    def _port_map(self, index: int, point: ProcessPoint, point_index: int, attrs: tuple[Batch, ...]) -> PortMap:
        check_type(index, int, "a port number", self.name)
        check_type(point_index, int, "a port number", self.name)
        check_type(point, ProcessPoint, "a process point", self.name)
        return PortMap(index, point, point_index, attrs)

    def set_name(self, name: str) -> FlowNode:
        """Call the node something else, before a graph is built; returns the node."""
        check_type(name, str, "a text as name", self.name)
        self._name = Name(name, "FlowNode")
        return self

    def set_alias(self, alias: str) -> FlowNode:
        """Give the node a second name, used in placement files; returns the node."""
        check_type(alias, str, "a text as alias", self.name)
        self.alias = alias
        return self

    def set_attr(self, name: str, value: AttrValue) -> None:
        """Set an attribute; unknown ones are faults of the graph.

        Raises:
            UsageError: the name is not a text, or the value is neither bool, int nor str.
        """
        check_type(name, str, "a text as name of an attribute", self.name)
        check_type(value, (bool, int, str), f"a bool, int or str as value of attribute {name!r}", self.name)
        self._attrs[name] = value

    def set_balance_scatter(self) -> FlowNode:
        """Say that the node deals parts of a message out over the instances of the next one (`BalanceConfig`)."""
        self._attrs["_balance_scatter"] = True
        return self

    def set_balance_gather(self) -> FlowNode:
        """Say that the node sends parts so that those of a row or column meet in one instance (`BalanceConfig`)."""
        self._attrs["_balance_gather"] = True
        return self

    def set_options(self, **options: object) -> FlowNode:
        """Say how the node is run; returns the node.

        Args:
            options: `instances`, `threads`, `env`, `call_timeout`, `on_error`, `restarts`, `when_lost`, `process`,
                `dispatch`, `align_max_cache` and the like (see NodeOptions), `depth` (of the queues behind all
                outputs), `engine` (id of its engine).

        Raises:
            OptionError: an unknown option (with the nearest known ones), or a value it cannot have.
        """
        rest = dict(options)
        depth = rest.pop("depth", self.depth)
        engine = rest.pop("engine", self.engine)
        if not isinstance(depth, int):
            raise OptionError(f"depth: expected a whole number, got {depth!r}", node=self.name)
        if not isinstance(engine, str):
            raise OptionError(f"engine: expected a text, got {engine!r}", node=self.name)
        self.depth = QueueSettings(depth).depth
        self.options = changed_options(self.options, rest)
        if engine:
            self._attrs["engine"] = engine
        return self

    def set_queue(
        self, output_index: int, *, depth: int = 0, overflow: str = "block", max_age: float | timedelta = 0.0
    ) -> FlowNode:
        """Say how the queues behind one output are; returns the node.

        Args:
            output_index: Output of the node.
            depth: Messages that may wait for each consumer; 0 is the default.
            overflow: What a full queue does: `block`, `drop_oldest`, `drop_newest`, `keep_latest` or `max_age`.
            max_age: Seconds after which a message is dropped, for `max_age`.

        Raises:
            OptionError: a value it cannot have, or no such output.
        """
        if not 0 <= output_index < self.output_num:
            message = f"expected an output from 0 to {self.output_num - 1}, got {output_index}"
            raise OptionError(message, node=self.name)
        self._queues[output_index] = QueueSettings.of(depth, overflow, max_age)
        return self

    def __repr__(self) -> str:
        return f"FlowNode({self.name!r}, {self.input_num} -> {self.output_num}, {self.point})"


def _check_source(source: object, port: int, node: str) -> None:
    if not isinstance(source, (FlowData, FlowOutput)):
        hint = "give one of its outputs" if isinstance(source, (tuple, FlowNode)) else None
        got = type(source).__name__
        raise UsageError(f"input {port}: expected FlowData or FlowOutput, got {got}", node=node, hint=hint)
