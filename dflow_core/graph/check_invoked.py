"""Faults of the graphs and models that functions call, and where graphs lie inside others."""

from __future__ import annotations

from collections.abc import Iterator

from dflow_core.errors import DflowError, Fault, ModelFormatError
from dflow_core.graph.check_types import Describe
from dflow_core.graph.node import GraphView


def inner_graphs(graph: GraphView) -> Iterator[tuple[tuple[str, ...], GraphView]]:
    """The graphs directly inside a graph, by their place: (node), or (node, name) for one that its function calls."""
    for node in graph.nodes:
        if node.point is None:
            continue
        if node.point.nested is not None:
            yield (node.name,), node.point.nested
        for name, point in node.point.invoked.items():
            if point.nested is not None:
                yield (node.name, name), point.nested


def invoked_faults(graph: GraphView, describe: Describe | None) -> Iterator[Fault]:
    """Faults of what the functions of one graph call, apart from those inside the graphs they call."""
    for node in graph.nodes:
        for name, point in (node.point.invoked if node.point else {}).items():
            scope = f"{node.name}/{name}"
            if point.nested is not None or describe is None:
                continue
            try:
                known = describe(point, 0, 0)
            except DflowError as error:
                kind = "model" if isinstance(error, ModelFormatError) else "engine"
                yield Fault(kind, scope, "", error.message, error.hint or "check the path of the file")
                continue
            if known is None:
                message = "expected a model whose inputs and outputs are known, got one that nothing is known of"
                hint = "put it on a node with the right counts, and call the graph around that"
                yield Fault("arity", scope, "", message, hint)
