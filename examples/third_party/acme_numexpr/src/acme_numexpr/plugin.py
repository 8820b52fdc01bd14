"""Registers the engine and its kind of process point; imports numexpr only when a point is compiled or run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from acme_numexpr.points import ExprPoint, from_bytes, to_bytes
from dflow_core.spi import EngineEntry, PointEntry, hookimpl

if TYPE_CHECKING:
    from dflow_core.spi import Engine, WorkerLoader

DFLOW_SPI_VERSION = 1


@hookimpl
def dflow_register_engines() -> Sequence[EngineEntry]:
    """The engine NUMEXPR; it shares a process with others, because it runs no foreign code."""
    return [
        EngineEntry(
            "NUMEXPR", accepts=lambda point: isinstance(point, ExprPoint), engine=_engine, worker=_worker,
            shares_process=True,
        )
    ]


@hookimpl
def dflow_register_process_points() -> Sequence[PointEntry]:
    """ExprPoint."""
    return [PointEntry(ExprPoint.kind, lambda: ExprPoint, to_bytes, from_bytes)]


def _engine() -> Engine:
    from acme_numexpr.engine import ExprEngine

    return ExprEngine()


def _worker() -> WorkerLoader:
    from acme_numexpr.engine import load

    return load
