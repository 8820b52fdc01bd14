"""How compiled models are joined, from the edges, by name (runtime-semantics.md section 20)."""

from __future__ import annotations

from dflow_core.compiler.ir import IrGraph
from dflow_core.model import Endpoint, InvokedEndpoints, ModelEndpoints, ModelRelation


def build_relation(graph: IrGraph) -> ModelRelation:
    """The relation of a flat graph.

    Args:
        graph: A graph without graphs inside; endpoints are unique.
    """
    fetched = {output.endpoint for output in graph.outputs}
    read = {endpoint for node in graph.nodes for endpoint in node.needs}
    calls = [(node.name, call) for node in graph.nodes for call in node.calls]
    queues = [(item.endpoint, item.queue) for item in (*graph.inputs, *(i for _, call in calls for i in call.inputs))]
    queues += [(name, queue) for node in graph.nodes for name, queue in zip(node.outputs, node.queues)]
    used = read | fetched
    endpoints = [Endpoint(name, q.depth, q.overflow, name not in used, q.max_age) for name, q in queues]
    root = ModelEndpoints(
        graph.name, tuple(item.endpoint for item in graph.inputs), tuple(item.endpoint for item in graph.outputs)
    )
    return ModelRelation(
        tuple(endpoints),
        {node.name: ModelEndpoints(node.name, node.inputs, node.outputs) for node in graph.nodes},
        root,
        tuple(item.name for item in graph.inputs),
        tuple(item.name for item in graph.outputs),
        tuple(
            InvokedEndpoints(name, call.key, tuple(item.endpoint for item in call.inputs), call.outputs)
            for name, call in calls
        ),
    )
