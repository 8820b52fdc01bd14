"""One function of a node, with what puts its inputs together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dflow_core.executor.pairing.aligner import Aligner
from dflow_core.executor.pairing.gathering import Gatherer
from dflow_core.executor.pairing.limited_aligner import LimitedAligner
from dflow_core.spi import FlowFunc
from dflow_core.types import AlignLimits, FuncSpec


@dataclass(slots=True)
class NodeFunction:
    """One function of a node.

    Args:
        spec: Its ports.
        func: What it does.
        aligner: Pairs its inputs.
        gatherer: Collects the parts of transactions, if it gathers.
        limited: The aligner, if that gives up.
    """

    spec: FuncSpec
    func: FlowFunc
    aligner: Aligner
    gatherer: Gatherer | None
    limited: LimitedAligner | None

    def poison(self, trans_id: int) -> None:
        """Drop what there is of a transaction and what is still to come: it has ended."""
        self.aligner.poison(trans_id)
        if self.gatherer is not None:
            self.gatherer.poison(trans_id)

    def unpoison(self, trans_id: int) -> None:
        """Stop dropping a transaction; see `poison`."""
        self.aligner.unpoison(trans_id)
        if self.gatherer is not None:
            self.gatherer.unpoison(trans_id)


def node_functions(
    specs: Sequence[FuncSpec], funcs: Sequence[FlowFunc], dead: Iterable[tuple[int, int, tuple[int, ...]]],
    limits: AlignLimits, clock: Callable[[], float],
) -> list[NodeFunction]:
    """The functions of a node.

    Args:
        specs, funcs: The functions, one of each.
        dead: Parts lost with a former instance: trans_id, data_label, node ports that had arrived.
        limits: When to give up a set that stays incomplete.
        clock: Monotonic seconds.
    """
    parts = list(dead)
    return [_function(spec, func, parts, limits, clock) for spec, func in zip(specs, funcs, strict=True)]


def _function(
    spec: FuncSpec, func: FlowFunc, dead: Sequence[tuple[int, int, tuple[int, ...]]], limits: AlignLimits,
    clock: Callable[[], float],
) -> NodeFunction:
    mine = {port: local for local, port in enumerate(spec.inputs)}
    local_dead = [
        (trans_id, label, tuple(mine[port] for port in ports if port in mine))
        for trans_id, label, ports in dead
        if any(port in mine for port in ports)
    ]
    ports = len(spec.inputs)
    limited = LimitedAligner(ports, local_dead, limits, clock) if limits and ports > 1 else None
    gatherer = Gatherer() if spec.gather else None
    return NodeFunction(spec, func, limited or Aligner(ports, local_dead), gatherer, limited)
