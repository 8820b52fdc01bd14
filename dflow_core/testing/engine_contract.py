"""What every engine must do, as a pytest class.

Subclass it in a test module of your plugin and give it two fixtures:

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def entry(self) -> EngineEntry:
            return plugin.dflow_register_engines()[0]

        @pytest.fixture(params=[...])
        def case(self) -> EngineCase:
            return EngineCase(MyPoint(...), inputs=[x], outputs=[y])

For engines whose workers are FlowFuncs, test those with `FuncHarness`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from dflow_core.graph import ProcessPoint
from dflow_core.model import PneModel, pack_submodel, unpack_submodel
from dflow_core.spi import CompileContext, EngineEntry, ModelWorker, WorkerContext, same_sizes
from dflow_core.types import Array, TensorSpec, data_type_of

NODE = "scope/node"


@dataclass(frozen=True)
class EngineCase:
    """A point, and what it must give.

    Args:
        point: The process point.
        inputs: One array per input.
        outputs: One array per output.
        tolerance: Largest difference, absolute and relative.
        options: Graph options in force.
    """

    point: ProcessPoint
    inputs: Sequence[Array]
    outputs: Sequence[Array]
    tolerance: float = 1e-5
    options: dict[str, str] = field(default_factory=dict)

    @property
    def context(self) -> CompileContext:
        """What the engine is told."""
        return CompileContext(NODE, self.options, len(self.inputs), len(self.outputs))


class StrangePoint(ProcessPoint):
    """A kind of process point no engine takes."""

    kind = "strange"


class EngineContract:
    """Contract of engines and their model workers."""

    pytestmark = pytest.mark.timeout(120)

    @pytest.fixture
    def entry(self) -> EngineEntry:
        """The engine under test."""
        raise NotImplementedError

    @pytest.fixture
    def case(self) -> EngineCase:
        """A point it can compile."""
        raise NotImplementedError

    @pytest.fixture
    def model(self, entry: EngineEntry, case: EngineCase) -> PneModel:
        """The compiled point, as it arrives in another process."""
        return unpack_submodel(b"".join(pack_submodel(entry.engine().compile(case.point, case.context))))

    @pytest.fixture
    def worker(self, entry: EngineEntry, model: PneModel) -> Iterator[ModelWorker]:
        """A loaded worker."""
        worker = load(entry, model)
        yield worker
        worker.close()

    def test_engine_takes_its_own_points_only(self, entry: EngineEntry, case: EngineCase) -> None:
        assert entry.accepts(case.point)
        assert not entry.accepts(StrangePoint())
        assert entry.engine().id == entry.id

    def test_description_is_quick_and_fits_the_model(
        self, entry: EngineEntry, case: EngineCase, model: PneModel
    ) -> None:
        engine = entry.engine()
        engine.describe(case.point)
        start = time.perf_counter()
        described = engine.describe(case.point)
        assert time.perf_counter() - start < 0.5, "describe is called by graph validation: it must be quick"
        if described is None:
            return
        for said, arrays in ((described.inputs, case.inputs), (described.outputs, case.outputs)):
            assert len(said) == len(arrays)
            assert [s.mismatch(data_type_of(a.dtype), a.shape) for s, a in zip(said, arrays)] == [None] * len(said)
        assert _conflicts(described.inputs, model.inputs) == _conflicts(described.outputs, model.outputs) == []

    def test_cache_key_is_the_same_for_the_same(self, entry: EngineEntry, case: EngineCase) -> None:
        keys = {entry.engine().cache_key(case.point, case.context) for _ in range(3)}
        assert len(keys) == 1
        assert isinstance(keys.pop(), bytes)

    def test_model_is_named_and_owns_its_ports(self, entry: EngineEntry, case: EngineCase, model: PneModel) -> None:
        assert (model.name, model.engine) == (NODE, entry.id)
        ports = [port for function in model.functions for port in function.inputs]
        assert sorted(ports) == list(range(len(case.inputs)))
        ports = [port for function in model.functions for port in function.outputs]
        assert sorted(ports) == list(range(len(case.outputs)))

    def test_several_threads_may_compile_at_once(self, entry: EngineEntry, case: EngineCase) -> None:
        engine, models = entry.engine(), list[PneModel]()
        threads = [
            threading.Thread(target=lambda: models.append(engine.compile(case.point, case.context))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(100)
        assert [model.name for model in models] == [NODE] * 3

    def test_worker_gives_the_right_answer(self, worker: ModelWorker, case: EngineCase) -> None:
        assert (len(worker.inputs), len(worker.outputs)) == (len(case.inputs), len(case.outputs))
        _compare(worker.execute(case.inputs, np.empty), case)

    def test_read_only_inputs_will_do(self, worker: ModelWorker, case: EngineCase) -> None:
        inputs = [array.copy() for array in case.inputs]
        for array in inputs:
            array.flags.writeable = False
        _compare(worker.execute(inputs, np.empty), case)

    def test_results_are_the_callers_own(self, worker: ModelWorker, case: EngineCase) -> None:
        first = list(worker.execute(case.inputs, np.empty))
        worker.execute([np.zeros_like(array) for array in case.inputs], np.empty)
        _compare(first, case)

    def test_inputs_are_not_used_after_the_call(self, worker: ModelWorker, case: EngineCase) -> None:
        inputs = [array.copy() for array in case.inputs]
        results = list(worker.execute(inputs, np.empty))
        for array in inputs:
            array[...] = np.zeros_like(array)
        _compare(results, case)

    def test_two_workers_do_not_disturb_each_other(
        self, entry: EngineEntry, model: PneModel, worker: ModelWorker, case: EngineCase
    ) -> None:
        other = load(entry, model, instance=1)
        _compare(other.execute(case.inputs, np.empty), case)
        other.close()
        _compare(worker.execute(case.inputs, np.empty), case)

    def test_sizes_said_to_be_the_same_are(self, model: PneModel, worker: ModelWorker, case: EngineCase) -> None:
        results = worker.execute(case.inputs, np.empty)
        for result, sources in zip(results, same_sizes(model)):
            for size, source in zip(result.shape, sources):
                assert source is None or case.inputs[source[0]].shape[source[1]] == size

    def test_a_worker_that_works_has_not_failed(self, worker: ModelWorker, case: EngineCase) -> None:
        assert worker.failure() is None
        worker.execute(case.inputs, np.empty)
        assert worker.failure() is None

    def test_closing_twice_is_harmless(self, entry: EngineEntry, model: PneModel) -> None:
        worker = load(entry, model)
        worker.close()
        worker.close()


def load(entry: EngineEntry, model: PneModel, instance: int = 0) -> ModelWorker:
    """Load a model as an executor does."""
    worker = entry.worker()(model, WorkerContext(model.name, instance, 2, "cpu:0", 1))
    assert isinstance(worker, ModelWorker), "engines of functions are tested with FuncHarness"
    return worker


def _compare(results: Sequence[Array], case: EngineCase) -> None:
    assert len(results) == len(case.outputs)
    for got, want in zip(results, case.outputs):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind in "fc":
            difference = np.abs(got.astype(np.complex128) - want.astype(np.complex128))
            assert bool((difference <= case.tolerance * (1 + np.abs(want.astype(np.complex128)))).all())
        else:
            assert np.array_equal(got, want)


def _conflicts(described: Sequence[TensorSpec], compiled: Sequence[TensorSpec]) -> list[str]:
    return [text for a, b in zip(described, compiled) if (text := a.conflict(b)) is not None]
