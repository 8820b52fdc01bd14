"""The Python function that puts Acme's gain into a graph."""

from __future__ import annotations

from dflow_core.graph import FlowData, FlowOutput, FuncProcessPoint


def gain(source: FlowData | FlowOutput, factor: float = 1.0, name: str | None = None) -> FlowOutput:
    """Every element of a stream of float32 tensors, multiplied.

    Args:
        source: The stream.
        factor: What to multiply by.
        name: Name of the node.

    Returns:
        A stream of tensors of the same shapes.
    """
    point = FuncProcessPoint(name="gain", builtin="acme.gain")
    point.set_init_param("factor", float(factor))
    output = point.fnode(1, 1, name)(source)
    assert isinstance(output, FlowOutput)
    return output
