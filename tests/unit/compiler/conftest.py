"""A registry of engines that compile nothing, and remember what they were asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from dflow_core.errors import CompileError, ModelFormatError
from dflow_core.graph import FlowNode, Framework, FuncProcessPoint, GraphProcessPoint, ProcessPoint
from dflow_core.model import GraphModel, PneModel, SerializedModel, UdfModel
from dflow_core.plugins import PluginRegistry, load_plugins
from dflow_core.spi import CompileContext, Engine, EngineEntry, FlowFunc, PointIO, UdfEntry, WorkerLoader, hookimpl
from dflow_core.types import DataType, FuncSpec, TensorSpec

FLOATS = TensorSpec(DataType.FLOAT, (-1, 4))


class FakeEngine(Engine):
    """Reads `ok`, `broken` and `crash` files; a file may also say how many inputs and outputs it has."""

    def __init__(self, engine_id: str) -> None:
        self.id = engine_id
        self.compiled: list[str] = []
        self.lock = threading.Lock()
        self.before: Callable[[str], None] = lambda _node: None

    def describe(self, point: ProcessPoint) -> PointIO | None:
        text = content(point)
        if text == "missing":
            raise ModelFormatError("there is no such file")
        if text == "explode":
            raise ZeroDivisionError("describe")
        return PointIO((FLOATS,), (FLOATS,)) if isinstance(point, GraphProcessPoint) else None

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        settings = repr(sorted(point.settings.items())) if isinstance(point, GraphProcessPoint) else ""
        params = repr(sorted(point.init_params.items())) if isinstance(point, FuncProcessPoint) else ""
        key = f"{content(point)} {settings} {params} {context.options.get('plugin.fake', '')}"
        return key.encode()

    def compile(self, point: ProcessPoint, context: CompileContext) -> PneModel:
        self.before(context.node)
        with self.lock:
            self.compiled.append(context.node)
        text = content(point)
        if text.startswith("broken"):
            raise CompileError(f"{text} cannot be compiled")
        if text == "crash":
            raise ZeroDivisionError("compile")
        context.report(f"{text} was easy")
        if isinstance(point, FuncProcessPoint):
            params = dict(point.init_params)
            return UdfModel(name="any", engine=self.id, package=point.package, builtin=point.builtin, params=params)
        if isinstance(point, GraphProcessPoint):
            ports = (FLOATS,) * (2 if text == "two" else 1)
            return GraphModel(
                name="any", engine="any", inputs=ports, outputs=(FLOATS,), framework="onnx", source=text.encode()
            )
        return SerializedModel(name="any", engine=self.id, data=b"data")


def content(point: ProcessPoint) -> str:
    if isinstance(point, GraphProcessPoint):
        return point.graph_bytes.decode()
    return point.package.decode() if isinstance(point, FuncProcessPoint) else point.name


@dataclass
class Fakes:
    """What the tests' plugin gives."""

    engines: dict[str, FakeEngine] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    def registry(self) -> PluginRegistry:
        module = ModuleType("fakes")

        def is_graph(point: ProcessPoint) -> bool:
            return isinstance(point, GraphProcessPoint)

        entries = [
            EngineEntry(name, accepts, lambda name=name: self._engine(name), _worker, self.versions.get(name, "1"))
            for name, accepts in (
                ("CPU", is_graph),
                ("UDF", lambda p: isinstance(p, FuncProcessPoint)),
                ("ODD", lambda p: p.kind == "odd"),
            )
            if name not in self.missing
        ]
        entries.append(EngineEntry("CPU2", is_graph, lambda: self._engine("CPU2"), _worker, priority=-1))
        udfs = [
            UdfEntry(
                "_BuiltIn_TimeBatch", _udf, {"window": None, "batch_dim": -1, "drop_remainder": False}, True, True,
            ),
            UdfEntry(
                "_BuiltIn_CountBatch", _udf,
                {"batch_size": None, "timeout": 0.0, "padding": False, "slide_stride": 0}, True, True,
            ),
        ]

        @hookimpl
        def dflow_register_engines():
            return entries

        @hookimpl
        def dflow_register_udfs():
            return [udf for udf in udfs if udf.name not in self.missing]

        module.dflow_register_engines = dflow_register_engines
        module.dflow_register_udfs = dflow_register_udfs
        return load_plugins([module])

    def _engine(self, name: str) -> FakeEngine:
        self.made.append(name)
        return self.engines.setdefault(name, FakeEngine(name))

    @property
    def compiled(self) -> list[str]:
        """Nodes that were compiled, sorted."""
        return sorted(node for engine in self.engines.values() for node in engine.compiled)

    def forget(self) -> None:
        for engine in self.engines.values():
            engine.compiled.clear()


def _worker() -> WorkerLoader:
    raise AssertionError("nothing is run")


def _udf() -> FlowFunc:
    raise AssertionError("nothing is run")


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dflow_core.plugins.loading._discover", list)


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def registry(fakes: Fakes) -> PluginRegistry:
    return fakes.registry()


@pytest.fixture
def func() -> Callable[..., FlowNode]:
    """Makes a function node: name, inputs, outputs, code."""

    def make(name: str, ins: int = 1, outs: int = 1, code: str = "code") -> FlowNode:
        spec = FuncSpec("run", tuple(range(ins)), tuple(range(outs)))
        return FuncProcessPoint(package=f"{code}".encode(), functions=[spec]).fnode(ins, outs, name)

    return make


@pytest.fixture
def model() -> Callable[..., FlowNode]:
    """Makes a model node: name, content, settings."""

    def make(name: str, content: str = "ok", ins: int = 1, **settings: str) -> FlowNode:
        return GraphProcessPoint(Framework.ONNX, content.encode(), **settings).fnode(ins, 1, name)

    return make
