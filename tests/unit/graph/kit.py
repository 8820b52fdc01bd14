"""Small graphs for the tests of this folder."""

from __future__ import annotations

from dataclasses import dataclass

from dflow_core.errors import Fault
from dflow_core.graph import FlowGraph, FlowNode, FuncProcessPoint, ProcessPoint
from dflow_core.types import FuncSpec, TensorSpec


@dataclass(frozen=True)
class IO:
    """What a described point takes and gives."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def func(inputs: int = 1, outputs: int = 1, name: str | None = None, **options: bool) -> FlowNode:
    """A node with one Python function."""
    spec = FuncSpec(name or "f", tuple(range(inputs)), tuple(range(outputs)), **options)
    return FuncProcessPoint(package=b"code", functions=[spec]).fnode(inputs, outputs, name)


def describer(known: dict[ProcessPoint | None, IO]):
    """A `describe` that knows some points."""
    return lambda point, inputs, outputs: known.get(point)


def kinds(graph: FlowGraph, describe=None) -> list[str]:
    """Kinds of the faults of a graph."""
    return [fault.kind for fault in graph.faults(describe)]


def only_fault(graph: FlowGraph, describe=None) -> Fault:
    """The one fault of a graph."""
    faults = graph.faults(describe)
    assert len(faults) == 1, "\n".join(map(str, faults))
    return faults[0]
