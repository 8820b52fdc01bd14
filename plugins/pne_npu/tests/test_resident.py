"""Results that stay on the device between two models of one process."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_core.errors import RunError
from dflow_core.model import GraphModel
from dflow_core.spi import WorkerContext
from dflow_core.types import Array
from dflow_pne_npu.running.resident import MOST
from dflow_pne_npu.worker import NpuLoader, NpuWorker

ROWS = 8


@pytest.fixture
def doubling(bench, add_model: bytes) -> GraphModel:
    """y = relu(a + b), compiled for 8 rows."""
    return bench.compile(bench.point(add_model, input_shape=f"a:{ROWS},4;b:{ROWS},4"), 2)


@pytest.fixture
def squashing(bench, relu_model: bytes) -> GraphModel:
    """z = relu(y), compiled for 8 rows."""
    return bench.compile(bench.point(relu_model, input_shape=f"y:{ROWS},4"))


@pytest.fixture
def chain(bench, doubling: GraphModel, squashing: GraphModel) -> tuple[NpuWorker, NpuWorker]:
    """Both loaded as neighbours in one process."""
    loader = NpuLoader()
    head = loader(doubling, WorkerContext("head", 0, 1, "cpu:0", 1, stays_here=(True,)))
    tail = loader(squashing, WorkerContext("tail", 0, 1, "cpu:0", 1, stays_here=(False,)))
    bench.workers += [head, tail]
    return head, tail


def values(seed: int) -> list[Array]:
    """Two inputs."""
    random = np.random.default_rng(seed)
    return [random.random((ROWS, 4), np.float32) for _ in "ab"]


def test_a_chain_gives_what_both_models_give(chain: tuple[NpuWorker, NpuWorker]) -> None:
    head, tail = chain
    for seed in range(5):
        a, b = values(seed)
        (middle,) = head.execute([a, b], np.empty)
        (result,) = tail.execute([middle], np.empty)
        assert np.allclose(result, a + b)


def test_the_middle_never_comes_to_the_host(chain: tuple[NpuWorker, NpuWorker], emulator) -> None:
    head, tail = chain
    before = emulator.counters()
    for seed in range(3):
        tail.execute(head.execute(values(seed), np.empty), np.empty)
    grown = {key: value - before[key] for key, value in emulator.counters().items()}
    size = ROWS * 4 * 4
    assert grown == {"host_to_device": 3 * 2 * size, "device_to_host": 3 * size, "device_to_device": 0, "executes": 6,
                     "misuses": 0}


def test_several_results_wait_their_turn(chain: tuple[NpuWorker, NpuWorker]) -> None:
    head, tail = chain
    waiting = [head.execute(values(seed), np.empty)[0] for seed in range(MOST + 3)]
    for seed, middle in enumerate(waiting):
        (result,) = tail.execute([middle], np.empty)
        assert np.allclose(result, sum(values(seed)))


def test_calls_in_flight_keep_their_memory(chain: tuple[NpuWorker, NpuWorker]) -> None:
    head, tail = chain
    middles = [head.execute(values(seed), np.empty)[0] for seed in (1, 2)]
    calls = [tail.begin([middle], np.empty) for middle in middles]
    head.execute(values(3), np.empty)
    for seed, call in zip((1, 2), calls):
        assert np.allclose(tail.finish(call)[0], sum(values(seed)))


def test_a_lost_message_gives_its_memory_back(chain: tuple[NpuWorker, NpuWorker]) -> None:
    head, tail = chain
    for seed in range(2 * MOST):
        head.execute(values(seed), np.empty)  # nobody reads it
        (middle,) = head.execute(values(seed), np.empty)
        (result,) = tail.execute([middle], np.empty)
        assert np.allclose(result, sum(values(seed)))


def test_a_result_of_a_former_process_is_an_error_not_data(
    chain: tuple[NpuWorker, NpuWorker], squashing: GraphModel, bench
) -> None:
    (middle,) = chain[0].execute(values(1), np.empty)
    later = bench.load(squashing)
    with pytest.raises(RunError, match="former process"):
        later.execute([middle], np.empty)


def test_the_reader_may_outlive_the_writer(chain: tuple[NpuWorker, NpuWorker]) -> None:
    head, tail = chain
    (middle,) = head.execute(values(1), np.empty)
    call = tail.begin([middle], np.empty)
    head.close()
    assert np.allclose(tail.finish(call)[0], sum(values(1)))
    tail.close()


def test_a_reader_with_open_sizes_makes_a_copy(bench, doubling: GraphModel, relu_model: bytes) -> None:
    loader = NpuLoader()
    head = loader(doubling, WorkerContext("head", 0, 1, "cpu:0", 1, stays_here=(True,)))
    tail = loader(bench.compile(bench.point(relu_model)), WorkerContext("tail", 0, 1, "cpu:0", 1))
    bench.workers += [head, tail]
    (middle,) = head.execute(values(4), np.empty)
    assert np.allclose(tail.execute([middle], np.empty)[0], sum(values(4)))
