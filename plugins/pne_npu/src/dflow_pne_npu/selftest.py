"""Everything once, on the device at hand: a report that a person can paste."""

from __future__ import annotations

import base64
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.model import GraphModel
from dflow_core.spi import CompileContext, WorkerContext
from dflow_core.types import Array
from dflow_pne_npu.bindings import Acl, Context, DeviceBuffer, HostBuffer, Stream
from dflow_pne_npu.compiling import AtcCompiler
from dflow_pne_npu.engine import NpuEngine
from dflow_pne_npu.installation import Installation
from dflow_pne_npu.worker import NpuWorker

# y = relu(a + b) over float32 [n, 4], as an ONNX file.
_MODEL = base64.b64decode(
    "CAg6eQoVCgFhCgFiEgNzdW0aA2FkZCIDQWRkChQKA3N1bRIBeRoEcmVsdSIEUmVsdRIIc2VsZnRlc3RaFAoBYRIPCg0IARIJCgMSAW4KAggEWhQK"
    "AWISDwoNCAESCQoDEgFuCgIIBGIUCgF5Eg8KDQgBEgkKAxIBbgoCCARCBAoAEA0="
)
_BYTES = 1 << 20
_RUNS = 100


@dataclass(frozen=True)
class Step:
    """One line of the report.

    Args:
        name: What was tried.
        ok: Whether it worked.
        text: What was found, or why it failed.
    """

    name: str
    ok: bool
    text: str


class SelfTest:
    """The steps in order; later ones need earlier ones, so the first that fails is the last.

    Args:
        device: Number of the device.
        soc: The chip to compile for; "" for that of the device.
    """

    def __init__(self, device: int = 0, soc: str = "") -> None:
        self._device = device
        self._soc = soc
        self._acl: Acl | None = None

    def run(self) -> Iterator[Step]:
        """Do the steps, each as it ends."""
        steps: list[tuple[str, Callable[[], str]]] = [
            ("system", self._system), ("library", self._library), ("devices", self._devices), ("copies", self._copies),
            ("atc", self._atc), ("fixed sizes", self._fixed), ("gears", self._gears), ("open sizes", self._open),
        ]
        for name, step in steps:
            try:
                yield Step(name, True, step())
            except Exception as error:  # whatever stops it is the finding
                yield Step(name, False, f"{type(error).__name__}: {error}")
                return

    def _system(self) -> str:
        return f"Python {platform.python_version()}, {platform.system()} {platform.release()} {platform.machine()}"

    def _library(self) -> str:
        self._acl = Acl()
        path = self._acl.search_path
        return f"{path}, interface {'.'.join(map(str, self._acl.version))}"

    def _devices(self) -> str:
        acl = self._opened()
        with Context(acl, self._device):
            free, total = acl.memory()
            mode = "device" if acl.runs_on_device() else "host"
        return (f"{acl.device_count()} of {acl.soc_name()}, this program runs on the {mode}; "
                f"npu:{self._device} has {free >> 20} of {total >> 20} MiB free")

    def _copies(self) -> str:
        acl = self._opened()
        wanted = np.arange(_BYTES, dtype=np.uint32).view(np.uint8)[:_BYTES]
        with Context(acl, self._device) as context:
            up, down = context.keep(HostBuffer(acl, _BYTES)), context.keep(HostBuffer(acl, _BYTES))
            device, stream = context.keep(DeviceBuffer(acl, _BYTES)), context.keep(Stream(acl, "selftest"))
            up.array[:] = wanted
            begin = time.perf_counter()
            device.copy_from(up, _BYTES, stream)
            device.copy_to(down, _BYTES, stream)
            stream.synchronize(60)
            took = time.perf_counter() - begin
            if not np.array_equal(down.array, wanted):
                raise ValueError("what came back from the device is not what went there")
        return f"1 MiB there and back in {took * 1e6:.0f} µs"

    def _atc(self) -> str:
        compiler = AtcCompiler(Installation.of())
        return compiler.version()

    def _fixed(self) -> str:
        return self._model({"input_shape": "a:2,4;b:2,4"}, 2)

    def _gears(self) -> str:
        return self._model({"input_shape": "a:-1,4;b:-1,4", "dynamic_batch_size": "1,2,4"}, 4)

    def _open(self) -> str:
        return self._model({"input_shape": "a:-1,4;b:-1,4"}, 3)

    def _model(self, settings: dict[str, str], batch: int) -> str:
        """Compile, load and run a model; what it gives is compared with numpy."""
        if self._soc:
            settings["soc_version"] = self._soc
        point = GraphProcessPoint(Framework.ONNX, _MODEL, None, "", None, device=str(self._device), **settings)
        begin = time.perf_counter()
        model = NpuEngine().compile(point, CompileContext("selftest", {}, 2, 1))
        compiled = time.perf_counter() - begin
        return f"compiled in {compiled:.2f} s; {self._runs(model, batch)}"

    def _runs(self, model: GraphModel, batch: int) -> str:
        worker = NpuWorker(self._opened(), model, WorkerContext("selftest", 0, 1, "cpu:0", 1))
        try:
            values = np.arange(batch * 4, dtype=np.float32).reshape(batch, 4)
            inputs: list[Array] = [values - 3, values - 5]
            wanted = np.maximum(values - 3 + values - 5, 0)
            begin = time.perf_counter()
            for _ in range(_RUNS):
                (result,) = worker.execute(inputs, np.empty)
            took = (time.perf_counter() - begin) / _RUNS
            if not np.allclose(result, wanted, rtol=1e-2, atol=1e-2):
                raise ValueError(f"the model gave {result.tolist()}, not {wanted.tolist()}")
        finally:
            worker.close()
        return f"right answer, {took * 1e6:.0f} µs a run"

    def _opened(self) -> Acl:
        assert self._acl is not None
        return self._acl
