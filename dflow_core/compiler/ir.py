"""What the passes work on: the user's graph as plain data that never changes, joined by names.

A stream of messages is an endpoint: `<graph>:<input>` for what the caller feeds, `<node>:<output>` for what a node
gives. Ports are those of the process point: a node whose inputs are mapped crosswise is straightened on the way in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dflow_core.graph import Batch, ProcessPoint, QueueSettings
from dflow_core.model import PneModel
from dflow_core.types import FuncSpec, NodeOptions, TensorSpec


@dataclass(frozen=True, slots=True)
class IrInput:
    """Something the caller feeds."""

    name: str
    endpoint: str
    schema: TensorSpec | None = None
    queue: QueueSettings = field(default_factory=QueueSettings)


@dataclass(frozen=True, slots=True)
class IrOutput:
    """Something the caller fetches."""

    name: str
    endpoint: str


@dataclass(frozen=True, slots=True)
class IrCall:
    """A graph that a function calls.

    Args:
        key: What the function calls it by.
        body: The graph; None once its nodes lie beside the function's, where `inputs` and `outputs` say which they are.
        inputs: What the function feeds.
        outputs: Endpoints it fetches.
    """

    key: str
    body: IrGraph | None = None
    inputs: tuple[IrInput, ...] = ()
    outputs: tuple[str, ...] = ()

    def rewired(self, names: Mapping[str, str]) -> IrCall:
        """The same with other endpoints; those not in `names` stay."""
        inputs = tuple(replace(i, endpoint=names.get(i.endpoint, i.endpoint)) for i in self.inputs)
        return replace(self, inputs=inputs, outputs=tuple(names.get(e, e) for e in self.outputs))


@dataclass(frozen=True, slots=True)
class IrNode:
    """A node.

    Args:
        name: Full name, scope included.
        point: What it does.
        inputs: Endpoint that feeds each port of the point.
        outputs: Endpoint of each port of the point.
        queues: How the queues behind each output are.
        batches: How the messages of each input are put together; at most one entry each.
        options: How it is run.
        settings: Options of the graph it was written in, and its own, in force over those of the session.
        engine: Id of its engine; before `assign_engines` the one the user wants, or "".
        functions: Functions of a node that the compiler made; else the point's count.
        body: The graph inside, if it is one; its inputs and outputs are the node's ports.
        labels: What a deploy file may call it; see PneModel.
        balance: See PneModel.
        compiled: What it was compiled to before (it comes from a model file), so that it is not compiled again.
        calls: The graphs its function calls.
    """

    name: str
    point: ProcessPoint
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    queues: tuple[QueueSettings, ...]
    batches: tuple[tuple[Batch, ...], ...] = ()
    options: NodeOptions = NodeOptions()
    settings: Mapping[str, object] = field(default_factory=dict)
    engine: str = ""
    functions: tuple[FuncSpec, ...] = ()
    body: IrGraph | None = None
    labels: tuple[str, ...] = ()
    balance: str = ""
    compiled: PneModel | None = None
    calls: tuple[IrCall, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Every endpoint it reads: its inputs, and the outputs of the graphs it calls."""
        return (*self.inputs, *(endpoint for call in self.calls for endpoint in call.outputs))


@dataclass(frozen=True, slots=True)
class IrGraph:
    """A graph: producers come before consumers in `nodes`."""

    name: str
    inputs: tuple[IrInput, ...]
    nodes: tuple[IrNode, ...]
    outputs: tuple[IrOutput, ...]

    def rewired(self, names: Mapping[str, str]) -> IrGraph:
        """The same graph reading other endpoints; those not in `names` stay."""
        if not names:
            return self
        nodes = tuple(
            replace(n, inputs=tuple(names.get(e, e) for e in n.inputs), calls=tuple(c.rewired(names) for c in n.calls))
            for n in self.nodes
        )
        outputs = tuple(replace(o, endpoint=names.get(o.endpoint, o.endpoint)) for o in self.outputs)
        return replace(self, nodes=nodes, outputs=outputs)


def map_bodies(graph: IrGraph, change: Callable[[IrGraph], IrGraph]) -> IrGraph:
    """The graph with `change` applied to the graphs inside its nodes, and to those that functions call."""

    def changed(node: IrNode) -> IrNode:
        body = change(node.body) if node.body is not None else None
        calls = tuple(replace(c, body=change(c.body)) if c.body is not None else c for c in node.calls)
        return replace(node, body=body, calls=calls)

    return replace(graph, nodes=tuple(changed(n) if n.body or n.calls else n for n in graph.nodes))
