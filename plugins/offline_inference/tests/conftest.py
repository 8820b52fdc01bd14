"""Models that are functions of this process, so that tests decide when a call ends and see what runs beside what."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from dflow_core.graph import ProcessPoint
from dflow_core.model import PneModel, SerializedModel
from dflow_core.plugins import Contribution, PluginRegistry, PluginReport
from dflow_core.session import DFlowSession
from dflow_core.spi import CompileContext, Engine, EngineEntry, ModelWorker, OutputAlloc, PointIO, WorkerContext
from dflow_core.testing.waiting import wait_until
from dflow_core.types import Array, DataType, FuncSpec, TensorSpec
from dflow_offline_inference import ModelConfig, OfflineInference

FLOATS = TensorSpec(DataType.FLOAT, (-1, -1), "x")
LIMIT = 10.0
MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"


def same(x: Array) -> Sequence[Array]:
    return [np.asarray(x) * 2]


@dataclass
class Puppet:
    """A model whose calls are made by a function of this process.

    Args:
        function: Takes the input arrays, gives the output arrays.
        inputs, outputs: What the model takes and gives.
        depth: Calls that may be in flight.
        gate: Calls wait for it if it is given.
        same_sizes: What the engine says of it.
    """

    function: Callable[..., Sequence[Array]] = same
    inputs: Sequence[TensorSpec] = (FLOATS,)
    outputs: Sequence[TensorSpec] = (TensorSpec(DataType.FLOAT, (-1, -1), "y"),)
    depth: int = 1
    gate: threading.Event | None = None
    same_sizes: str = ""
    weight: int = 8
    broken: Exception | None = None
    failure: Exception | None = None
    calls: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    loaded: int = 0
    closed: int = 0
    running: int = 0
    most: int = 0
    order: list[float] = field(default_factory=list)

    def call(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self.running += 1
        self.most = max(self.most, self.running)
        self.calls.append(tuple(array.shape for array in arrays))
        self.order += [float(row.flat[0]) for row in arrays[0] if row.size]
        self.threads.add(threading.current_thread().name)
        self.entered.release()
        try:
            if self.gate is not None:
                assert self.gate.wait(LIMIT), "the test forgot to open the gate"
            return self.function(*arrays)
        finally:
            self.running -= 1


class PuppetPoint(ProcessPoint):
    """A process point for a puppet."""

    kind: ClassVar[str] = "puppet"

    def __init__(self, puppet: Puppet) -> None:
        super().__init__("puppet")
        self.puppet = puppet


class PuppetWorker(ModelWorker):
    """Runs a puppet. With a depth above 1, calls are made when they are finished, in order."""

    def __init__(self, puppet: Puppet) -> None:
        self.inputs, self.outputs = tuple(puppet.inputs), tuple(puppet.outputs)
        self.depth = puppet.depth
        self.puppet = puppet
        self.owner = threading.current_thread()
        self.flights: list[Sequence[Array]] = []
        puppet.loaded += 1

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        assert threading.current_thread() is self.owner, "a worker belongs to one thread"
        results = []
        for result in self.puppet.call(inputs):
            target = alloc(result.shape, result.dtype)
            target[...] = result
            results.append(target)
        return results

    def begin(self, inputs: Sequence[Array], alloc: OutputAlloc) -> object:
        if self.depth == 1:
            return self.execute(inputs, alloc)
        call = (inputs, alloc)
        self.flights.append(call)  # type: ignore[arg-type]
        assert len(self.flights) <= self.depth
        return call

    def finish(self, call: object) -> Sequence[Array]:
        if self.depth == 1:
            return super().finish(call)
        assert self.flights.pop(0) is call
        return self.execute(*call)  # type: ignore[misc]

    def failure(self):  # type: ignore[no-untyped-def]
        return self.puppet.failure

    def close(self) -> None:
        assert threading.current_thread() is self.owner
        self.puppet.closed += 1


class PuppetEngine(Engine):
    """Compiles puppets into their number."""

    id = "PUPPET"

    def __init__(self, puppets: dict[int, Puppet]) -> None:
        self.puppets = puppets

    def describe(self, point: ProcessPoint) -> PointIO | None:
        assert isinstance(point, PuppetPoint)
        return PointIO(tuple(point.puppet.inputs), tuple(point.puppet.outputs))

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        return b""

    def compile(self, point: ProcessPoint, context: CompileContext) -> PneModel:
        assert isinstance(point, PuppetPoint)
        number = len(self.puppets)
        self.puppets[number] = puppet = point.puppet
        spec = FuncSpec("", tuple(range(len(puppet.inputs))), tuple(range(len(puppet.outputs))))
        settings = {"same_sizes": puppet.same_sizes} if puppet.same_sizes else {}
        return SerializedModel(
            name=context.node, engine=self.id, inputs=tuple(puppet.inputs), outputs=tuple(puppet.outputs),
            functions=(spec,), data=number.to_bytes(puppet.weight, "little"), settings=settings,
        )


def puppet_registry() -> PluginRegistry:
    """Plugins: the engine of puppets alone, and a local transport that is never used."""
    from dflow_core import builtin

    puppets: dict[int, Puppet] = {}

    def load(model: PneModel, context: WorkerContext) -> ModelWorker:
        assert isinstance(model, SerializedModel)
        puppet = puppets[int.from_bytes(model.data, "little")]
        if puppet.broken is not None:
            raise puppet.broken
        return PuppetWorker(puppet)

    entry = EngineEntry(
        "PUPPET", lambda point: isinstance(point, PuppetPoint), lambda: PuppetEngine(puppets), lambda: load
    )
    from dflow_core.spi import TransportEntry

    def never() -> object:
        raise AssertionError("threads need no transport")

    shm = TransportEntry("none", factory=never)  # type: ignore[arg-type]
    report = PluginReport("puppets", "puppets", "1", "loaded")
    return PluginRegistry([
        Contribution(report, [entry, shm]), Contribution(report, list(builtin.dflow_register_deployers())),
    ])


@pytest.fixture
def puppet_session() -> Iterator[DFlowSession]:
    """A session that knows puppets only."""
    with DFlowSession({}, puppet_registry()) as session:
        yield session


@dataclass
class Made:
    """Makes OfflineInferences over puppets, and closes them."""

    session: DFlowSession
    made: list[OfflineInference] = field(default_factory=list)

    def __call__(
        self, puppets: Mapping[str, Puppet] | Puppet, *, config: Mapping[str, object] | None = None, **settings: object
    ) -> OfflineInference:
        """Start one; a single puppet is called `m`.

        Args:
            puppets: Models by name, or the only one.
            config: For `ModelConfig`, the same for all.
            settings: For `OfflineInference`.
        """
        named = {"m": puppets} if isinstance(puppets, Puppet) else puppets
        configs = {name: ModelConfig(PuppetPoint(one), **dict(config or {})) for name, one in named.items()}
        settings.setdefault("session", self.session)
        offline = OfflineInference(configs, **settings)  # type: ignore[arg-type]
        self.made.append(offline)
        offline.init()
        return offline


@pytest.fixture
def start(puppet_session: DFlowSession) -> Iterator[Made]:
    """Starts OfflineInferences over puppets."""
    made, before = Made(puppet_session), set(threading.enumerate())
    yield made
    for offline in made.made:
        offline.close(cancel=True, timeout=LIMIT)
    threads = [t for t in threading.enumerate() if t.name.startswith("dflow-") and t not in before]
    for thread in threads:
        thread.join(LIMIT)
    left = [thread.name for thread in threads if thread.is_alive()]
    assert not left, f"threads are left: {left}"


@pytest.fixture
def gated() -> Iterator[Puppet]:
    """A model whose calls wait until the test opens its gate; opened at the end in any case."""
    puppet = Puppet(gate=threading.Event())
    yield puppet
    assert puppet.gate is not None
    puppet.gate.set()


@pytest.fixture
def make_puppet() -> type[Puppet]:
    return Puppet


@pytest.fixture
def make_point() -> type[PuppetPoint]:
    return PuppetPoint


@pytest.fixture
def models() -> Path:
    """Folder of the small model files."""
    return MODELS


@pytest.fixture
def rows() -> Callable[[float], Array]:
    """Makes an input of one row whose first number is the one given."""

    def make(value: float, width: int = 2, count: int = 1) -> Array:
        return np.full((count, width), value, np.float32)

    return make


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Waits for a condition, and fails when it does not come."""

    return functools.partial(wait_until, limit=LIMIT, pause=0.002)
