"""Python functions that put Acme's functions into a graph."""

from __future__ import annotations

from dflow_core.graph import FlowData, FlowNode, FlowOutput, FuncProcessPoint


def moving_average(source: FlowData | FlowOutput, window: int, name: str | None = None) -> FlowOutput:
    """Mean of the last `window` messages of a stream.

    Args:
        source: The stream: tensors of one shape.
        window: How many messages.
        name: Name of the node.

    Returns:
        A stream of float64 tensors of that shape.
    """
    node = _node("acme.moving_average", 1, {"window": window}, name)
    output = node(source)
    assert isinstance(output, FlowOutput)
    return output


def threshold(
    source: FlowData | FlowOutput, limit: float = 0.5, name: str | None = None
) -> tuple[FlowOutput, FlowOutput]:
    """Parts a stream in two by the largest element of each message.

    Args:
        source: The stream.
        limit: The limit.
        name: Name of the node.

    Returns:
        The messages above the limit, and the others.
    """
    node = _node("acme.threshold", 2, {"limit": limit}, name)
    outputs = node(source)
    assert isinstance(outputs, tuple)
    above, below = outputs
    return above, below


def _node(function: str, outputs: int, params: dict[str, object], name: str | None) -> FlowNode:
    point = FuncProcessPoint(name=function.rpartition(".")[2], builtin=function)
    for key, value in params.items():
        point.set_init_param(key, value)
    return point.fnode(1, outputs, name)
