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
        nodes = tuple(replace(n, inputs=tuple(names.get(e, e) for e in n.inputs)) for n in self.nodes)
        outputs = tuple(replace(o, endpoint=names.get(o.endpoint, o.endpoint)) for o in self.outputs)
        return replace(self, nodes=nodes, outputs=outputs)


def map_bodies(graph: IrGraph, change: Callable[[IrGraph], IrGraph]) -> IrGraph:
    """The graph with `change` applied to the graphs inside its nodes."""
    nodes = tuple(replace(n, body=change(n.body)) if n.body is not None else n for n in graph.nodes)
    return replace(graph, nodes=nodes)
