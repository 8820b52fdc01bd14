"""Graphs inside nodes are poured into the graph around them, and graphs that functions call laid beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

from dflow_core.compiler.ir import IrCall, IrGraph, IrNode
from dflow_core.compiler.passes.base import Pass, PassResult
from dflow_core.errors import Fault, GraphError
from dflow_core.graph import QueueSettings
from dflow_core.types import NodeOptions


class Flatten(Pass):
    """Puts the nodes of a graph inside a node in that node's place, under names `<node>/<inner>`.

    Inputs and outputs are joined by position. Depth is limited where graphs are lowered. The nodes of a graph that a
    function calls follow the function, under names `<node>/<key>/<inner>`; they are joined to nothing but the function.
    """

    name = "flatten"

    def apply(self, graph: IrGraph) -> PassResult:
        changed: list[str] = []
        return PassResult(_flat(graph, changed), tuple(changed))

    def ensures(self, graph: IrGraph) -> str | None:
        twice = _repeated([node.name for node in graph.nodes])
        if twice:
            return f"several nodes are called {', '.join(twice)}"
        left = [n.name for n in graph.nodes if n.body is not None or any(call.body for call in n.calls)]
        return f"graphs are left inside {', '.join(left)}" if left else None


def _flat(graph: IrGraph, changed: list[str]) -> IrGraph:
    while (node := next((item for item in graph.nodes if item.body is not None), None)) is not None:
        assert node.body is not None
        body = _flat(node.body, changed)
        _check_options(graph, node, body)
        graph = _spliced(graph, node, _scoped(node.name, body, node.inputs, node.labels))
        changed.append(f"{node.name}: its {len(body.nodes)} nodes took its place")
    graph = replace(graph, nodes=tuple(found for node in graph.nodes for found in _with_called(node, changed)))
    _check_names(graph)
    return graph


def _with_called(node: IrNode, changed: list[str]) -> list[IrNode]:
    """A node and, behind it, the nodes of the graphs its function calls."""
    calls: list[IrCall] = []
    nodes: list[IrNode] = []
    for call in node.calls:
        if call.body is None:
            calls.append(call)
            continue
        scope = f"{node.name}/{call.key}"
        flat = _flat(call.body, changed)
        ends = [f"{scope}:{item.name}" for item in flat.inputs]
        labels = (*(f"{label}/{call.key}" for label in node.labels), *node.labels)
        body = _scoped(scope, flat, ends, labels)
        inputs = tuple(replace(item, endpoint=end) for item, end in zip(flat.inputs, ends))
        calls.append(replace(call, body=None, inputs=inputs, outputs=tuple(o.endpoint for o in body.outputs)))
        nodes += body.nodes
        changed.append(f"{node.name}: calls {call.key!r}, which has {len(body.nodes)} nodes")
    return [replace(node, calls=tuple(calls)), *nodes]


def _scoped(scope: str, body: IrGraph, feeds: Sequence[str], labels: Sequence[str]) -> IrGraph:
    """The graph inside, under names and labels of the graph around it and fed by what feeds its place."""
    ends = [e for inner in body.nodes for e in inner.outputs]
    ends += [item.endpoint for inner in body.nodes for call in inner.calls for item in call.inputs]
    names = {endpoint: _joined(scope, endpoint) for endpoint in ends}
    nodes = tuple(
        replace(
            inner, name=_joined(scope, inner.name), outputs=tuple(names[e] for e in inner.outputs),
            labels=(*(f"{outer}/{label}" for label in inner.labels for outer in labels), *labels),
        )
        for inner in body.nodes
    )
    names.update(zip((item.endpoint for item in body.inputs), feeds))
    return replace(body, nodes=nodes).rewired(names)


def _joined(scope: str, name: str) -> str:
    """A name in a scope; the only node of a model that is called has none, and is called like the scope."""
    if not scope:
        return name
    return scope + ("" if not name or name.startswith(":") else "/") + name


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
    ends += [item.endpoint for node in graph.nodes for call in node.calls for item in call.inputs]
    if not faults:
        text = "an input and an output have this name once graphs inside are flattened"
        faults = [Fault("duplicate-name", name, "", text, "rename the graph") for name in _repeated(ends)]
    if faults:
        raise GraphError(graph.name, faults)


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)
