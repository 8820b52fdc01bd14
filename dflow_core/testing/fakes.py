"""An engine whose models are Python functions of arrays: for tests that need an engine and no model.

This module is a plugin: `load_plugins(builtin=[dflow_core.builtin, dflow_core.testing.fakes])`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import ClassVar

from dflow_core.errors import CompileError
from dflow_core.graph import ProcessPoint
from dflow_core.model import PneModel, SerializedModel
from dflow_core.spi import (
    CompileContext,
    Engine,
    EngineEntry,
    ModelWorker,
    OutputAlloc,
    PointEntry,
    PointIO,
    WorkerContext,
    WorkerLoader,
    hookimpl,
)
from dflow_core.types import Array, FuncSpec, TensorSpec

FAKE_ENGINE = "FAKE"


class FakePoint(ProcessPoint):
    """A model that is a Python function.

    Args:
        function: Takes one array per input, gives one array per output (a sequence, also of one).
        inputs, outputs: What it takes and gives.
        name: Name of the point.
        compile_error: Text of the error that compiling it raises; "" for none.
    """

    kind: ClassVar[str] = "fake"

    def __init__(
        self, function: Callable[..., Sequence[Array]], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec],
        name: str | None = None, compile_error: str = "",
    ) -> None:
        super().__init__(name)
        self.function = function
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.compile_error = compile_error


class FakeEngine(Engine):
    """Compiles FakePoints: pickles the function.

    Args:
        engine_id: Its id.
    """

    def __init__(self, engine_id: str = FAKE_ENGINE) -> None:
        self.id = engine_id

    def describe(self, point: ProcessPoint) -> PointIO | None:
        assert isinstance(point, FakePoint)
        return PointIO(point.inputs, point.outputs)

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        return hashlib.sha256(_to_bytes(point)).digest()

    def compile(self, point: ProcessPoint, context: CompileContext) -> PneModel:
        assert isinstance(point, FakePoint)
        if point.compile_error:
            raise CompileError(point.compile_error, node=context.node)
        context.report(f"{context.node} is a Python function in disguise")
        spec = FuncSpec("", tuple(range(len(point.inputs))), tuple(range(len(point.outputs))))
        return SerializedModel(
            name=context.node, engine=self.id, inputs=point.inputs, outputs=point.outputs, functions=(spec,),
            data=_to_bytes(point),
        )


class FakeWorker(ModelWorker):
    """Runs a FakePoint's function.

    Args:
        point: The point.
    """

    def __init__(self, point: FakePoint) -> None:
        self.inputs, self.outputs = point.inputs, point.outputs
        self.is_closed = False
        self._function = point.function

    def execute(self, inputs: Sequence[Array], alloc: OutputAlloc) -> Sequence[Array]:
        results = []
        for result in self._function(*inputs):
            target = alloc(result.shape, result.dtype)
            target[...] = result
            results.append(target)
        return results

    def close(self) -> None:
        self.is_closed = True


@hookimpl
def dflow_register_engines() -> Sequence[EngineEntry]:
    """The fake engine."""
    return [EngineEntry(FAKE_ENGINE, _accepts, FakeEngine, _worker)]


@hookimpl
def dflow_register_process_points() -> Sequence[PointEntry]:
    """Its kind of process point."""
    return [PointEntry(FakePoint.kind, lambda: FakePoint, _to_bytes, _from_bytes)]


def _accepts(point: ProcessPoint) -> bool:
    return isinstance(point, FakePoint)


def _worker() -> WorkerLoader:
    return _load


def _load(model: PneModel, context: WorkerContext) -> ModelWorker:
    assert isinstance(model, SerializedModel)
    return FakeWorker(_from_bytes(model.data))


def _to_bytes(point: ProcessPoint) -> bytes:
    import cloudpickle

    assert isinstance(point, FakePoint)
    function: bytes = cloudpickle.dumps(point.function)
    rest: bytes = cloudpickle.dumps((point.inputs, point.outputs, point.name, point.compile_error))
    return struct.pack("<Q", len(function)) + function + rest


def _from_bytes(data: bytes) -> FakePoint:
    import pickle

    (size,) = struct.unpack_from("<Q", data)
    function = pickle.loads(data[8 : 8 + size])
    inputs, outputs, name, compile_error = pickle.loads(data[8 + size :])
    return FakePoint(function, inputs, outputs, name, compile_error)
