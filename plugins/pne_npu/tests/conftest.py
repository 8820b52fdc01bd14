"""The emulator in place of an NPU, and a model compiled and loaded the way the compiler and an executor do it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dflow_acl_emulator import emulated_environment
from dflow_core.graph import Framework, GraphProcessPoint
from dflow_core.model import GraphModel
from dflow_core.spi import CompileContext, WorkerContext
from dflow_pne_npu.engine import NpuEngine
from dflow_pne_npu.worker import NpuLoader, NpuWorker

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"
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
def bench(emulated: dict[str, str]) -> Iterator[Bench]:
    """A compiler's and an executor's side in one, on the emulator."""
    made = Bench()
    yield made
    for worker in made.workers:
        worker.close()


@pytest.fixture
def chdir_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Makes the test's own folder the current one."""

    def change() -> Path:
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return change
