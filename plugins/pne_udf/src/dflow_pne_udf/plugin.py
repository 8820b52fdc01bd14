"""What this package registers with dflow."""

from __future__ import annotations

from dflow_core.graph import FuncProcessPoint, ProcessPoint
from dflow_core.spi import Engine, EngineEntry, WorkerLoader, hookimpl

ENGINE_ID = "UDF"
ENGINE_VERSION = "1"


def _accepts(point: ProcessPoint) -> bool:
    return isinstance(point, FuncProcessPoint)


def _engine() -> Engine:
    from dflow_pne_udf.engine import UdfEngine

    return UdfEngine(ENGINE_ID)


def _worker() -> WorkerLoader:
    from dflow_pne_udf.worker import load

    return load


@hookimpl
def dflow_register_engines() -> list[EngineEntry]:
    """The engine for user functions."""
    return [EngineEntry(id=ENGINE_ID, accepts=_accepts, engine=_engine, worker=_worker, version=ENGINE_VERSION)]
