"""Another process point in the place of a node's own, with the same ports and batching."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.errors import UsageError
from dflow_core.graph.node import FlowNode, PortMap, ProcessPoint


def exchange_point(node: FlowNode, new: ProcessPoint) -> ProcessPoint:
    """Let a node do something else; gives what it did before.

    Raises:
        UsageError: the node does several things, or none.
    """
    if len(node.points) != 1:
        count = len(node.points)
        raise UsageError(f"node {node.name!r} has {count} process points; only a node with one can be given another")
    old = node.points[0]
    node._points[:] = [new]
    for maps in (node._input_maps, node._output_maps):
        maps[:] = [_with_point(entry, new) for entry in maps]
    return old


def _with_point(entry: PortMap, point: ProcessPoint) -> PortMap:
    return replace(entry, point=point)
