"""The user's graph as the plain data the passes work on; the user's objects are only read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dflow_core.compiler.ir import IrCall, IrGraph, IrInput, IrNode, IrOutput
from dflow_core.errors import Fault, GraphError, OptionError
from dflow_core.graph import (
    Describe,
    FlowData,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    ProcessPoint,
    QueueSettings,
)
from dflow_core.graph import Source as GraphSource
from dflow_core.options import PLUGIN_PREFIX, find, resolve

MAX_DEPTH = 16
BALANCES = ("scatter", "gather")


def lower(
    graph: FlowGraph, depth: int = 1, settings: Mapping[str, object] | None = None, describe: Describe | None = None
) -> IrGraph:
    """The graph as plain data, the graphs inside its nodes and those that functions call included.

    Args:
        graph: A graph without faults.
        depth: How deep it lies in others, from 1.
        settings: Options of the graphs around it.
        describe: Says what a model takes and gives that a function calls.

    Raises:
        GraphError: graphs are nested deeper than 16.
    """
    if depth > MAX_DEPTH:
        text = f"graphs are nested more than {MAX_DEPTH} deep"
        raise GraphError(graph.name, [Fault("nesting", graph.name, "", text, "flatten one of them by hand")])
    if depth > 1:
        _check_options(graph)
    own = {**(settings or {}), **graph.options}
    feeds: dict[GraphSource, str] = {data: f"{graph.name}:{data.name}" for data in graph.inputs}
    inputs = tuple(IrInput(data.name, feeds[data], data.schema, data.queue) for data in graph.inputs)
    nodes = tuple(_node(node, feeds, depth, own, describe) for node in graph.nodes)
    outputs = tuple(
        IrOutput(name, _endpoint(output, feeds)) for name, output in zip(graph.output_names, graph.outputs)
    )
    return IrGraph(graph.name, inputs, nodes, outputs)


def _node(
    node: FlowNode, feeds: Mapping[GraphSource, str], depth: int, settings: Mapping[str, object],
    describe: Describe | None,
) -> IrNode:
    point = node.point
    assert point is not None, "the graph has been validated"
    sources = [_endpoint(source, feeds) for source in node.sources]
    names = [f"{node.name}:{i}" for i in range(node.output_num)]
    ins, outs = node.point_inputs(), node.point_outputs()
    body = None
    if isinstance(point, FlowGraphProcessPoint):
        body = lower(point.flow_graph, depth + 1, settings, describe)
        _check_ports(node, body)
    queues = [node.queue(i) for i in range(node.output_num)]
    if depth > 1 and "queue_depth" in settings:
        default = resolve(graph=settings).queue_depth
        queues = [q if q.depth else replace(q, depth=default) for q in queues]
    return IrNode(
        name=node.name,
        point=point,
        inputs=_ordered(sources, ins),
        outputs=_ordered(names, outs),
        queues=tuple(queues[i] for i in _positions(outs)),
        batches=tuple(node.batching(i) for i in _positions(ins)),
        options=node.options,
        settings=settings,
        engine=node.engine,
        body=body,
        labels=(node.alias or node.name,),
        balance=next((name for name in BALANCES if node.attrs.get(f"_balance_{name}")), ""),
        calls=tuple(
            IrCall(name, _called(f"{node.name}/{name}", inner, depth + 1, settings, describe))
            for name, inner in point.invoked.items()
        ),
    )


def _called(
    place: str, point: ProcessPoint, depth: int, settings: Mapping[str, object], describe: Describe | None
) -> IrGraph:
    """What a function calls, as a graph; a model becomes its only node, which has no name of its own."""
    if isinstance(point, FlowGraphProcessPoint):
        return lower(point.flow_graph, depth, settings, describe)
    known = describe(point, 0, 0) if describe is not None else None
    if known is None:
        text = "nothing is known of the inputs and outputs of the model it calls"
        raise GraphError(place, [Fault("arity", place, "", text, "put it on a node, and call the graph around that")])
    inputs = tuple(IrInput(f"input{i}", f":input{i}", spec) for i, spec in enumerate(known.inputs))
    names = tuple(f":{i}" for i in range(len(known.outputs)))
    node = IrNode(
        name="", point=point, inputs=tuple(item.endpoint for item in inputs), outputs=names,
        queues=(QueueSettings(),) * len(names), settings=settings,
    )
    return IrGraph(place, inputs, (node,), tuple(IrOutput(name, name) for name in names))


def _ordered(items: Sequence[str], ports: Sequence[int]) -> tuple[str, ...]:
    return tuple(items[i] for i in _positions(ports))


def _positions(ports: Sequence[int]) -> list[int]:
    """For each port of the point, the node's port that is tied to it."""
    return sorted(range(len(ports)), key=lambda i: ports[i])


def _endpoint(source: GraphSource | None, feeds: Mapping[GraphSource, str]) -> str:
    assert source is not None, "the graph has been validated"
    return feeds[source] if isinstance(source, FlowData) else f"{source.node.name}:{source.index}"


def _check_options(graph: FlowGraph) -> None:
    """A graph inside another may only set what its nodes can have: the rest belongs to the whole."""
    for key in graph.options:
        if not key.startswith(PLUGIN_PREFIX) and "node" not in find(key).scopes:
            raise OptionError(
                f"option {key!r} has no effect on graph {graph.name!r}, which lies inside another",
                hint="set it on the outermost graph",
            )
    for data in graph.inputs:
        if data.queue != QueueSettings():
            raise OptionError(
                f"the queue of input {data.name!r} has no effect: graph {graph.name!r} lies inside another",
                hint="set it on what feeds the node around it",
            )


def _check_ports(node: FlowNode, body: IrGraph) -> None:
    faults = [
        Fault("arity", node.name, "", f"the graph inside has {have} {what}s, the node {want}")
        for what, have, want in (
            ("input", len(body.inputs), node.input_num), ("output", len(body.outputs), node.output_num)
        )
        if have != want
    ]
    if faults:
        raise GraphError(node.name, faults)
