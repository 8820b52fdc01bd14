"""Graphs inside nodes are poured into the graph around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

from dflow_core.compiler.ir import IrGraph, IrNode
from dflow_core.compiler.passes.base import Pass, PassResult
from dflow_core.errors import Fault, GraphError
from dflow_core.graph import QueueSettings
from dflow_core.types import NodeOptions


class Flatten(Pass):
    """Puts the nodes of a graph inside a node in that node's place, under names `<node>/<inner>`.

    Inputs and outputs are joined by position. Depth is limited where graphs are lowered.
    """

    name = "flatten"

    def apply(self, graph: IrGraph) -> PassResult:
        changed: list[str] = []
        return PassResult(_flat(graph, changed), tuple(changed))

    def ensures(self, graph: IrGraph) -> str | None:
        twice = _repeated([node.name for node in graph.nodes])
        if twice:
            return f"several nodes are called {', '.join(twice)}"
        left = [node.name for node in graph.nodes if node.body is not None]
        return f"graphs are left inside {', '.join(left)}" if left else None


def _flat(graph: IrGraph, changed: list[str]) -> IrGraph:
    while (node := next((item for item in graph.nodes if item.body is not None), None)) is not None:
        assert node.body is not None
        body = _flat(node.body, changed)
        _check_options(graph, node, body)
        graph = _spliced(graph, node, _scoped(node, body))
        changed.append(f"{node.name}: its {len(body.nodes)} nodes took its place")
    _check_names(graph)
    return graph


def _scoped(node: IrNode, body: IrGraph) -> IrGraph:
    """The graph inside, under names of the graph around it and fed by what feeds the node."""
    names = {endpoint: f"{node.name}/{endpoint}" for inner in body.nodes for endpoint in inner.outputs}
    nodes = tuple(
        replace(
            inner, name=f"{node.name}/{inner.name}", outputs=tuple(names[e] for e in inner.outputs),
            labels=(*(f"{outer}/{label}" for label in inner.labels for outer in node.labels), *node.labels),
        )
        for inner in body.nodes
    )
    names.update(zip((item.endpoint for item in body.inputs), node.inputs))
    return replace(body, nodes=nodes).rewired(names)


def _spliced(graph: IrGraph, node: IrNode, body: IrGraph) -> IrGraph:
    at = [item.name for item in graph.nodes].index(node.name)
    given = {output.endpoint: queue for output, queue in zip(body.outputs, node.queues) if queue != QueueSettings()}
    inner = [replace(_queued(item, given), engine=item.engine or node.engine) for item in body.nodes]
    if len(inner) == 1 and node.options != NodeOptions():
        inner = [replace(inner[0], options=_merged(inner[0].options, node.options))]
    nodes = (*graph.nodes[:at], *inner, *graph.nodes[at + 1 :])
    names = {outside: output.endpoint for outside, output in zip(node.outputs, body.outputs)}
    return replace(graph, nodes=nodes).rewired(names)


def _queued(node: IrNode, given: dict[str, QueueSettings]) -> IrNode:
    """Queue settings of the node around it win."""
    return replace(node, queues=tuple(given.get(e, queue) for e, queue in zip(node.outputs, node.queues)))


def _merged(inside: NodeOptions, outside: NodeOptions) -> NodeOptions:
    """Options of the one node inside, with those the node around it sets."""
    given = {f.name: getattr(outside, f.name) for f in fields(NodeOptions) if getattr(outside, f.name) != f.default}
    return replace(inside, **given)


def _check_options(graph: IrGraph, node: IrNode, body: IrGraph) -> None:
    """An option that would have no effect is refused."""
    several = len(body.nodes) != 1
    if several and node.options != NodeOptions():
        text = "options of a node with a graph inside have no effect"
        hint = "set them on the nodes of that graph"
        raise GraphError(graph.name, [Fault("attribute", node.name, "", text, hint)])
    if node.engine and any(inner.engine not in ("", node.engine) for inner in body.nodes):
        text = f"engine {node.engine!r} is wanted for a graph whose nodes want others"
        raise GraphError(graph.name, [Fault("attribute", node.name, "", text, "set it in one place only")])


def _check_names(graph: IrGraph) -> None:
    faults = [
        Fault("duplicate-name", name, "", "two nodes have this name once graphs inside are flattened", "rename one")
        for name in _repeated([node.name for node in graph.nodes])
    ]
    ends = [item.endpoint for item in graph.inputs] + [e for node in graph.nodes for e in node.outputs]
    if not faults:
        text = "an input and an output have this name once graphs inside are flattened"
        faults = [Fault("duplicate-name", name, "", text, "rename the graph") for name in _repeated(ends)]
    if faults:
        raise GraphError(graph.name, faults)


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)
