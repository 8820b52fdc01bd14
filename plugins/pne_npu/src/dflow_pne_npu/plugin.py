"""What the plugin registers: the engine `NPU`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dflow_core.graph import Framework, GraphProcessPoint, ProcessPoint
from dflow_core.spi import Engine, EngineDevice, EngineEntry, WorkerLoader, hookimpl

DFLOW_SPI_VERSION = 1

_FRAMEWORKS = (Framework.ONNX, Framework.TENSORFLOW, Framework.MINDSPORE)
_BY_NAME = -10
"""Models run on an NPU where a node asks for it: a graph that ran must not change its place with a plugin."""


@hookimpl
def dflow_register_engines() -> Sequence[EngineEntry]:
    """The NPU engine; its modules are imported when it is used."""
    return [EngineEntry(id="NPU", accepts=accepts, engine=_engine, worker=_worker, version="1", priority=_BY_NAME,
                        shares_process=True, devices=devices, places=places, instead=instead)]


def accepts(point: ProcessPoint) -> bool:
    """Whether the engine compiles a point: model files of ONNX, TensorFlow and MindSpore, and OM files."""
    return isinstance(point, GraphProcessPoint) and point.framework in _FRAMEWORKS


def instead(point: ProcessPoint, options: Mapping[str, str]) -> str:
    """The engine of the host's CPUs, for a model that is to run there: ACL has no way to do that."""
    from dflow_pne_npu.settings import runs_on_host

    return "CPU" if isinstance(point, GraphProcessPoint) and runs_on_host(point, options) else ""


def devices() -> Sequence[str]:
    """The NPUs that are visible.

    Raises:
        PluginError: there is no ACL library.
    """
    from dflow_pne_npu.bindings import Acl

    acl = Acl()
    return [f"npu:{number} {acl.soc_name()}" for number in range(acl.device_count())]


def places() -> Sequence[EngineDevice]:
    """The NPUs that models can be placed on; the numbers are ACL's.

    Raises:
        PluginError: there is no ACL library.
    """
    from dflow_pne_npu.bindings import Acl

    acl = Acl()
    return [EngineDevice(f"npu:{number}", text=acl.soc_name()) for number in range(acl.device_count())]


def _engine() -> Engine:
    from dflow_pne_npu.engine import NpuEngine

    return NpuEngine()


def _worker() -> WorkerLoader:
    from dflow_pne_npu.worker import NpuLoader

    return NpuLoader()
