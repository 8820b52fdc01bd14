"""What the plugin registers: the engine `CPU`."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_core.graph import Framework, GraphProcessPoint, ProcessPoint
from dflow_core.spi import Engine, EngineEntry, WorkerLoader, hookimpl

DFLOW_SPI_VERSION = 1

_FRAMEWORKS = (Framework.ONNX, Framework.TENSORFLOW)


@hookimpl
def dflow_register_engines() -> Sequence[EngineEntry]:
    """The CPU engine; its modules are imported when it is used."""
    return [EngineEntry(id="CPU", accepts=accepts, engine=_engine, worker=_worker, version="4", shares_process=True)]


def accepts(point: ProcessPoint) -> bool:
    """Whether the engine compiles a point: model files of ONNX and TensorFlow."""
    return isinstance(point, GraphProcessPoint) and point.framework in _FRAMEWORKS


def _engine() -> Engine:
    from dflow_pne_cpu.engine import CpuEngine

    return CpuEngine()


def _worker() -> WorkerLoader:
    from dflow_pne_cpu.worker import CpuLoader

    return CpuLoader()
