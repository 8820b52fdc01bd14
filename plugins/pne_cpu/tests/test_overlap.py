"""Two calls of one model in flight: both answers are right, whatever happens to the other."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.errors import RunError, TensorError
from dflow_core.types import Array
from dflow_pne_cpu.worker import CpuWorker


@pytest.fixture
def matmul(bench, make_onnx) -> CpuWorker:
    """x @ z of any sizes; fails when they do not fit together, which no declared shape says."""
    data = make_onnx([("MatMul", "x z", "y")], [("x", "FLOAT", ["N", "K"]), ("z", "FLOAT", ["L", "M"])],
                     [("y", "FLOAT", ["N", "M"])])
    worker: CpuWorker = bench.worker(data, runtime="openvino")
    return worker


def pair(seed: int, k: int = 3, wrong: bool = False) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.random((2, k), np.float32), rng.random((k + wrong, 4), np.float32)]


def test_openvino_takes_two_calls_and_onnxruntime_one(bench) -> None:
    assert bench.worker("add_float.onnx", runtime="openvino").depth == 2
    assert bench.worker("add_float.onnx", runtime="onnxruntime").depth == 1


def test_a_model_with_a_state_takes_one_call(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    import openvino

    monkeypatch.setattr(openvino.InferRequest, "query_state", lambda _self: ["state"])
    assert bench.worker("add_float.onnx", runtime="openvino").depth == 1


@pytest.mark.parametrize("model", ["add_float.onnx", "add_dynamic.onnx"])
def test_both_answers_are_right_and_lie_where_they_should(bench, pool, model: str) -> None:
    worker = bench.worker(model, runtime="openvino")
    worker.execute([np.zeros(3, np.float32)] * 2, pool)
    flights: list[tuple[int, object]] = []
    for number in range(50):
        feed = np.full(3, number, np.float32)
        flights.append((number, worker.begin([feed, feed], pool)))
        target = pool.arrays[-1]
        if len(flights) == 2:
            expected, call = flights.pop(0)
            (result,) = worker.finish(call)
            assert result.tolist() == [2 * expected] * 3
            assert any(result is array for array in pool.arrays) and result is not target
    (result,) = worker.finish(flights.pop()[1])
    assert result is pool.arrays[-1] and result.tolist() == [98] * 3


def test_answers_are_right_before_any_shape_is_known(bench, pool, make_onnx) -> None:
    worker = bench.worker("nonzero.onnx", runtime="openvino")
    rng = np.random.default_rng(1)
    feeds = [(rng.random(40) < rng.random()).astype(np.float32) for _ in range(60)]
    calls = [worker.begin([feeds[0]], pool)]
    for number in range(1, 60):
        calls.append(worker.begin([feeds[number]], pool))
        (result,) = worker.finish(calls.pop(0))
        np.testing.assert_array_equal(result, np.nonzero(feeds[number - 1]))


def test_calls_in_flight_and_calls_alone_take_turns(matmul: CpuWorker, pool) -> None:
    for round_ in range(20):
        first, second, third = (pair(round_ * 3 + n, k=1 + (round_ + n) % 4) for n in range(3))
        calls = [matmul.begin(first, pool), matmul.begin(second, pool)]
        for feeds, call in zip((first, second), calls):
            np.testing.assert_allclose(matmul.finish(call)[0], feeds[0] @ feeds[1], atol=1e-5)
        np.testing.assert_allclose(matmul.execute(third, pool)[0], third[0] @ third[1], atol=1e-5)


@pytest.mark.parametrize("wrong", [(True, False), (False, True), (True, True)])
def test_a_failing_call_does_not_spoil_the_other(matmul: CpuWorker, pool, wrong: tuple[bool, bool]) -> None:
    for round_ in range(5):
        feeds = [pair(round_ * 2 + n, k=2 + round_, wrong=bad) for n, bad in enumerate(wrong)]
        calls = [matmul.begin(feed, pool) for feed in feeds]
        for feed, call, bad in zip(feeds, calls, wrong):
            if bad:
                with pytest.raises(RunError, match="inputs: x float32"):
                    matmul.finish(call)
            else:
                np.testing.assert_allclose(matmul.finish(call)[0], feed[0] @ feed[1], atol=1e-5)


def test_failures_among_overlapping_calls_change_no_later_answer(matmul: CpuWorker, pool) -> None:
    """After an exception a compiled model may answer wrongly: so may the call that was in flight behind it."""
    rng = np.random.default_rng(0)
    flights: list[tuple[list[Array], bool, object]] = []
    failed = 0

    def finish() -> None:
        nonlocal failed
        (x, z), wrong, call = flights.pop(0)
        if wrong:
            failed += 1
            with pytest.raises(RunError):
                matmul.finish(call)
        else:
            np.testing.assert_allclose(matmul.finish(call)[0], x @ z, atol=1e-5)

    for _ in range(300):
        n, k, m = rng.integers(1, 9, 3)
        wrong = bool(rng.random() < 0.3)
        feeds = [rng.random((n, k), np.float32), rng.random((k + wrong, m), np.float32)]
        flights.append((feeds, wrong, matmul.begin(feeds, pool)))
        if len(flights) == 2:
            finish()
    finish()
    assert failed > 50


def test_what_does_not_fit_never_begins(matmul: CpuWorker, pool) -> None:
    good = pair(1)
    call = matmul.begin(good, pool)
    with pytest.raises(TensorError):
        matmul.begin([good[0]], pool)
    with pytest.raises(TensorError):
        matmul.begin([good[0], good[1].astype(np.float64)], pool)
    np.testing.assert_allclose(matmul.finish(call)[0], good[0] @ good[1], atol=1e-5)


def test_integers_that_would_be_cut_never_begin(bench, pool, make_onnx) -> None:
    data = make_onnx([("Identity", "x", "y")], [("x", "INT64", [2])], [("y", "INT64", [2])])
    worker = bench.worker(data, runtime="openvino")
    call = worker.begin([np.array([1, 2])], pool)
    with pytest.raises(TensorError, match="32 bits"):
        worker.begin([np.array([1, 2**40])], pool)
    again = worker.begin([np.array([3, 4])], pool)
    assert worker.finish(call)[0].tolist() == [1, 2] and worker.finish(again)[0].tolist() == [3, 4]


def test_rounded_dimensions_are_cut_back(bench, pool) -> None:
    worker = bench.worker("add_dynamic.onnx", runtime="openvino", round_dims="8")
    feeds = [np.full(size, size, np.float32) for size in (3, 8, 5, 12)]
    calls = [worker.begin([feeds[0]] * 2, pool)]
    results = []
    for feed in feeds[1:]:
        calls.append(worker.begin([feed] * 2, pool))
        results += worker.finish(calls.pop(0))
    results += worker.finish(calls.pop())
    assert [result.tolist() for result in results] == [[2 * f.size] * f.size for f in feeds]


def test_closing_with_calls_in_flight_ends_them(bench) -> None:
    """Their memory may go away right after."""
    import mmap

    for _ in range(10):
        worker = bench.worker("conv_medium.onnx", runtime="openvino")
        with mmap.mmap(-1, 1 << 20) as block:
            feed = np.frombuffer(block, np.float32, 3 * 128 * 128).reshape(1, 3, 128, 128)
            calls = [worker.begin([feed], np.empty) for _ in range(2)]
            worker.close()
            worker.close()
            with pytest.raises(RunError, match="closed"):
                worker.finish(calls[0])
            del feed, calls


def test_arrays_are_not_kept_after_a_call(bench, read_only: Callable[[Array], Array]) -> None:
    worker = bench.worker("add_float.onnx", runtime="openvino")
    feed = read_only(np.ones(3, np.float32))
    before = sys.getrefcount(feed)
    for _ in range(3):
        calls = [worker.begin([feed, feed], np.empty) for _ in range(2)]
        results = [worker.finish(call)[0] for call in calls]
        del calls
        assert sys.getrefcount(feed) == before
        assert [sys.getrefcount(results.pop()) for _ in range(2)] == [1, 1]


def test_two_streams_run_two_calls_on_one_copy_of_the_weights(bench, pool) -> None:
    worker = bench.worker("conv_small.onnx", runtime="openvino", streams="2")
    assert (worker.streams, worker.depth) == (2, 2)
    feeds = [np.random.default_rng(n).random((2, 3, 32, 32), np.float32) for n in range(6)]
    wanted = [bench.worker("conv_small.onnx", runtime="openvino").execute([feed], np.empty)[0].copy() for feed in feeds]
    calls = [worker.begin([feed], pool) for feed in feeds[:2]]
    for number, want in enumerate(wanted):
        np.testing.assert_allclose(worker.finish(calls.pop(0))[0], want, atol=1e-6)
        if number + 2 < len(feeds):
            calls.append(worker.begin([feeds[number + 2]], pool))
