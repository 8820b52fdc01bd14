"""How many transactions have to be under way at once so that batches without a time limit can fill.

A batch of n messages leaves when n have come; with fewer under way nothing ever moves again. Behind a generator nobody
knows how many messages a transaction makes, so nothing is said of batches there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dflow_core.compiler.builtins import COUNT_BATCH
from dflow_core.compiler.ir import IrGraph
from dflow_core.errors import Fault
from dflow_core.graph import FuncProcessPoint
from dflow_core.model import FlowModel, UdfModel
from dflow_core.types import FuncSpec

_UNBATCH = "_BuiltIn_Unbatch"


@dataclass(frozen=True, slots=True)
class Need:
    """What the batches of a graph need.

    Args:
        least: Transactions without which some batch can never fill; 0 if there is no such batch.
        enough: Transactions with which all batches fill, wherever messages wait meanwhile.
        node: The batching node that needs the most.
    """

    least: int = 0
    enough: int = 0
    node: str = ""


@dataclass(frozen=True, slots=True)
class _Step:
    """A node: `batch` is how many messages it puts together without a time limit, 0 if it does not."""

    name: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    builtin: str
    batch: int
    multiplies: bool


def need_of(model: FlowModel) -> Need:
    """What the batches of a compiled graph need."""
    steps = []
    for name, sides in model.relation.submodels.items():
        part = model.submodels[name]
        builtin, params = (part.builtin, part.params) if isinstance(part, UdfModel) else ("", {})
        steps.append(
            _Step(name, sides.inputs, sides.outputs, builtin, _size(builtin, params), _multiplies(part.functions))
        )
    return _need(steps)


def batch_faults(graph: IrGraph, max_in_flight: int) -> list[Fault]:
    """Whether the transactions that may be under way at once are too few for a batch.

    Args:
        graph: A flat graph with its batching nodes.
        max_in_flight: Transactions under way at once; 0 is no limit.
    """
    steps = []
    for node in graph.nodes:
        point = node.point
        builtin, params = (point.builtin, point.init_params) if isinstance(point, FuncProcessPoint) else ("", {})
        functions = node.functions or point.functions
        steps.append(
            _Step(node.name, node.inputs, node.outputs, builtin, _size(builtin, params), _multiplies(functions))
        )
    need = _need(steps)
    if not max_in_flight or max_in_flight >= need.least:
        return []
    message = f"it waits for {need.least} transactions, and max_in_flight={max_in_flight} allows no more than that many"
    hint = f"set max_in_flight to {need.least} or more, or give the batch a timeout"
    return [Fault("stall", need.node, "", message, hint)]


def _need(steps: Sequence[_Step]) -> Need:
    weights: dict[str, int] = {}  # transactions in one message of an endpoint; 0 where nobody knows
    found, enough = Need(), 1
    for step in steps:  # producers come before consumers
        weight = min((weights.get(endpoint, 1) for endpoint in step.inputs), default=1)
        if step.batch and weight:
            enough += (step.batch - 1) * weight
            weight *= step.batch
            found = max(found, Need(weight, 0, step.name), key=lambda need: need.least)
        elif step.builtin == _UNBATCH:
            weight = min(weight, 1)
        elif step.multiplies:
            weight = 0
        weights.update(dict.fromkeys(step.outputs, weight))
    return Need(found.least, enough, found.node) if found.least else Need()


def _size(builtin: str, params: Mapping[str, object]) -> int:
    size, timeout = params.get("batch_size", 0), params.get("timeout", 0.0)
    return size if builtin == COUNT_BATCH and isinstance(size, int) and not timeout else 0


def _multiplies(functions: Sequence[FuncSpec]) -> bool:
    return any(function.generator for function in functions)
