"""Small models made on the spot, and a model compiled and loaded the way the compiler and an executor do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from onnx import TensorProto, helper

from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.model import GraphModel
from dflow_core.spi import CompileContext, WorkerContext
from dflow_core.types import Array
from dflow_pne_cpu.engine import CpuEngine
from dflow_pne_cpu.worker import CpuLoader, CpuWorker

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"
FRAMEWORKS = {".onnx": Framework.ONNX, ".pb": Framework.TENSORFLOW}
MakeOnnx: TypeAlias = Callable[..., bytes]


@pytest.fixture(scope="session")
def models() -> Path:
    """Folder of the small model files."""
    return MODELS


@pytest.fixture(scope="session")
def make_onnx() -> MakeOnnx:
    """Makes an ONNX file of nodes `(op, inputs, outputs, attributes)` and tensors `(name, dtype, shape)`."""

    def make(
        nodes: Sequence[tuple[str, str, str] | tuple[str, str, str, dict[str, object]]],
        inputs: Sequence[tuple[str, str, object]],
        outputs: Sequence[tuple[str, str, object]],
        initializers: Sequence[object] = (),
    ) -> bytes:
        made = [
            helper.make_node(op, ins.split(), outs.split(), **(rest[0] if rest else {}))
            for op, ins, outs, *rest in nodes
        ]
        sides = [
            [helper.make_tensor_value_info(name, getattr(TensorProto, dtype), shape) for name, dtype, shape in side]
            for side in (inputs, outputs)
        ]
        graph = helper.make_graph(made, "g", *sides, list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        data: bytes = model.SerializeToString()
        return data

    return make


@dataclass
class Bench:
    """Compiles and loads models; remembers what was reported and closes what was loaded."""

    engine: CpuEngine = field(default_factory=CpuEngine)
    loader: CpuLoader = field(default_factory=CpuLoader)
    reports: list[str] = field(default_factory=list)
    workers: list[CpuWorker] = field(default_factory=list)

    def point(
        self, model: str | Path | bytes, framework: Framework | None = None, **settings: object
    ) -> GraphProcessPoint:
        """A process point; a bare name is one of the small model files."""
        if isinstance(model, str):
            model = MODELS / model
        if framework is None:
            framework = Framework.ONNX if isinstance(model, bytes) else FRAMEWORKS[model.suffix]
        return GraphProcessPoint(framework, model, **settings)

    def compile(self, point: GraphProcessPoint, outputs: int | None = None, **options: str) -> GraphModel:
        """As the compiler does."""
        described = self.engine.describe(point)
        assert described is not None
        count = len(described.outputs) if outputs is None else outputs
        context = CompileContext("node", options, len(described.inputs), count, self.reports.append)
        return self.engine.compile(point, context)

    def load(self, model: GraphModel, threads: int = 1) -> CpuWorker:
        """As an executor does."""
        worker = self.loader(model, WorkerContext("node", 0, 1, "cpu:0", threads, report=self.reports.append))
        assert isinstance(worker, CpuWorker)
        self.workers.append(worker)
        return worker

    def worker(self, model: str | Path | bytes, **settings: object) -> CpuWorker:
        """Both."""
        return self.load(self.compile(self.point(model, **settings)))


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A compiler's and an executor's side in one."""
    made = Bench()
    yield made
    for worker in made.workers:
        worker.close()


@dataclass
class Pool:
    """Counts what is allocated; arrays begin on multiples of 64 as those of a transport do."""

    arrays: list[Array] = field(default_factory=list)

    def __call__(self, shape: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = np.empty(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        array = raw[start : start + size].view(dtype).reshape(shape)
        self.arrays.append(array)
        return array


@pytest.fixture
def pool() -> Pool:
    """An allocator that remembers."""
    return Pool()


@pytest.fixture(scope="session")
def read_only() -> Callable[[Array], Array]:
    """Makes a view that may not be written, as the inputs of a node are."""

    def view_of(array: Array) -> Array:
        view = array.view()
        view.flags.writeable = False
        return view

    return view_of
