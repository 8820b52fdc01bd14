"""The emulator in place of an NPU, and a model compiled and loaded the way the compiler and an executor do it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dflow_acl_emulator import emulated_environment
from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.model import GraphModel
from dflow_core.spi import CompileContext, WorkerContext
from dflow_pne_npu.compiling import AtcCompiler
from dflow_pne_npu.engine import NpuEngine
from dflow_pne_npu.worker import NpuLoader, NpuWorker

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"
COUNTERS = ("host_to_device", "device_to_host", "device_to_device", "executes", "misuses")
FRAMEWORKS = {".onnx": Framework.ONNX, ".pb": Framework.TENSORFLOW, ".air": Framework.MINDSPORE, ".om": Framework.ONNX}


@pytest.fixture(scope="session")
def models() -> Path:
    """Folder of the small model files."""
    return MODELS


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """This process's environment leads to the emulator; programs are given the same one."""
    wanted = emulated_environment()
    for name, value in wanted.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)
    return wanted


COMPILED: dict[tuple[Framework, bytes, str], bytes] = {}


@pytest.fixture
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is compiled by the first test that needs it: a run of atc takes most of a second."""
    compile_model = AtcCompiler.compile

    def remembered(self: AtcCompiler, framework: Framework, data: bytes, *rest: object) -> bytes:
        key = (framework, data, repr(rest))
        if key not in COMPILED:
            COMPILED[key] = compile_model(self, framework, data, *rest)
        return COMPILED[key]

    monkeypatch.setattr(AtcCompiler, "compile", remembered)


@dataclass
class Bench:
    """Compiles and loads models; remembers what was reported and closes what was loaded."""

    engine: NpuEngine = field(default_factory=NpuEngine)
    reports: list[str] = field(default_factory=list)
    workers: list[NpuWorker] = field(default_factory=list)

    def point(self, model: str | Path | bytes, **settings: str) -> GraphProcessPoint:
        """A process point; a bare name is one of the small model files."""
        path = MODELS / model if isinstance(model, str) else model
        framework = Framework.ONNX if isinstance(path, bytes) else FRAMEWORKS[path.suffix]
        return GraphProcessPoint(framework, path, **settings)

    def compile(self, point: GraphProcessPoint, inputs: int = 1, outputs: int = 1, **options: str) -> GraphModel:
        """As the compiler does."""
        return self.engine.compile(point, CompileContext("node", options, inputs, outputs, self.reports.append))

    def load(self, model: GraphModel, instance: int = 0) -> NpuWorker:
        """As an executor does."""
        worker = NpuLoader()(model, WorkerContext("node", instance, 2, "cpu:0", 1, report=self.reports.append))
        self.workers.append(worker)
        return worker


@pytest.fixture
def bench(emulated: dict[str, str], compiled_once: None) -> Iterator[Bench]:
    """A compiler's and an executor's side in one, on the emulator."""
    made = Bench()
    yield made
    for worker in made.workers:
        worker.close()


class Emulator:
    """The emulator in this process: what it counted, and which calls it lets fail."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)

    def counters(self) -> dict[str, int]:
        """Bytes copied and models run since the process began."""
        found = (ctypes.c_uint64 * len(COUNTERS))()
        self._library.aclemuGetCounters(found)
        return dict(zip(COUNTERS, found))

    def let_fail(self, script: str) -> None:
        """Replace the fault script."""
        self._library.aclemuSetFaults(script.encode())


@pytest.fixture
def emulator(emulated: dict[str, str]) -> Iterator[Emulator]:
    """The emulator; calls that were made to fail work again afterwards, and no misuse may have been reported."""
    control = Emulator(f"{emulated['ASCEND_HOME_PATH']}/lib64/libascendcl.so")
    before = control.counters()["misuses"]
    yield control
    control.let_fail("")
    assert control.counters()["misuses"] == before, "the emulator reported a misuse; see stderr"


def onnx_model(nodes: list[tuple[str, str, str]], inputs: str, output: str) -> bytes:
    """An ONNX file of float32 [n, 4] tensors."""
    from onnx import TensorProto, helper

    sides = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in names]
        for names in (inputs, output)
    ]
    made = [helper.make_node(kind, [*ins], [*outs], name=kind.lower()) for kind, ins, outs in nodes]
    graph = helper.make_graph(made, "g", *sides)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.fixture(scope="session")
def add_model() -> bytes:
    """y = relu(a + b)."""
    return onnx_model([("Add", "ab", "s"), ("Relu", "s", "y")], "ab", "y")


@pytest.fixture(scope="session")
def relu_model() -> bytes:
    """z = relu(y)."""
    return onnx_model([("Relu", "y", "z")], "y", "z")
