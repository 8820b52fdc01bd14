"""The worker: sizes, overlapping calls, failures of the device, memory."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_core.errors import DeployError, RunError, TensorError
from dflow_core.model import GraphModel
from dflow_core.types import Array
from dflow_pne_npu.bindings import AclError

ROWS = 4


def pair(rows: int = ROWS, shift: float = 0.0) -> list[Array]:
    """Inputs of the model."""
    a = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) + np.float32(shift)
    return [a, a * 2]


@pytest.fixture
def fixed(bench, add_model: bytes) -> GraphModel:
    return bench.compile(bench.point(add_model, input_shape=f"a:{ROWS},4;b:{ROWS},4"), 2)


@pytest.fixture
def geared(bench, add_model: bytes) -> GraphModel:
    return bench.compile(bench.point(add_model, input_shape="a:-1,4;b:-1,4", dynamic_batch_size="1,2,4"), 2)


def test_two_calls_are_in_flight(bench, fixed: GraphModel, emulator) -> None:
    worker = bench.load(fixed)
    assert worker.depth == 2
    calls = [worker.begin(pair(shift=shift), np.empty) for shift in (1, 2)]
    for shift, call in zip((1, 2), calls):
        assert np.array_equal(worker.finish(call)[0], sum(pair(shift=shift)))


def test_each_gear_gives_its_own_shape(bench, geared: GraphModel, emulator) -> None:
    worker = bench.load(geared)
    for rows in (2, 1, 4, 1, 2):
        (result,) = worker.execute(pair(rows), np.empty)
        assert np.array_equal(result, sum(pair(rows)))


def test_gears_of_calls_in_flight_do_not_mix(bench, geared: GraphModel, emulator) -> None:
    worker = bench.load(geared)
    calls = [(rows, worker.begin(pair(rows), np.empty)) for rows in (4, 1)]
    for rows, call in calls:
        assert np.array_equal(worker.finish(call)[0], sum(pair(rows)))


def test_a_shape_outside_the_gears_names_them(bench, geared: GraphModel, emulator) -> None:
    worker = bench.load(geared)
    with pytest.raises(TensorError, match="batch 1 or 2 or 4"):
        worker.execute(pair(3), np.empty)
    assert worker.execute(pair(2), np.empty)


def test_open_sizes_grow(bench, add_model: bytes, emulator) -> None:
    worker = bench.load(bench.compile(bench.point(add_model), 2))
    for rows in (1, 50, 3):
        (result,) = worker.execute(pair(rows), np.empty)
        assert np.array_equal(result, sum(pair(rows)))


def test_an_output_whose_size_depends_on_data(bench, emulator) -> None:
    worker = bench.load(bench.compile(bench.point("nonzero.onnx")))
    (result,) = worker.execute([np.array([0, 3, 0, 4], np.float32)], np.empty)
    assert result.tolist() == [[1, 3]]


def test_image_and_dims_gears(bench, emulator) -> None:
    image = bench.point("chain_body.onnx", input_shape="image:1,3,-1,-1", dynamic_image_size="16,16;24,32")
    worker = bench.load(bench.compile(image))
    shapes = {(16, 16): (4, 4), (24, 32): (6, 8)}
    for size, small in shapes.items():
        (result,) = worker.execute([np.ones((1, 3, *size), np.float32)], np.empty)
        assert result.shape == (1, 32, *small)
    dims = bench.point("chain_body.onnx", input_shape="image:1,3,-1,-1", dynamic_dims="16,16;24,32", input_format="ND")
    worker = bench.load(bench.compile(dims))
    (result,) = worker.execute([np.ones((1, 3, 24, 32), np.float32)], np.empty)
    assert result.shape == (1, 32, 6, 8)


@pytest.mark.parametrize("array", [np.ones((ROWS, 4)), np.ones((ROWS, 5), np.float32), np.ones(4, np.float32)])
def test_arrays_that_do_not_fit(bench, fixed: GraphModel, emulator, array: Array) -> None:
    worker = bench.load(fixed)
    with pytest.raises(TensorError, match="input 1 \\('b'\\)"):
        worker.execute([pair()[0], array], np.empty)
    with pytest.raises(TensorError, match="takes 2 inputs, got 1"):
        worker.execute(pair()[:1], np.empty)


def test_inputs_need_not_be_contiguous(bench, fixed: GraphModel, emulator) -> None:
    a, b = pair()
    (result,) = bench.load(fixed).execute([a[::-1], np.asfortranarray(b)], np.empty)
    assert np.array_equal(result, a[::-1] + b)


def test_a_failed_run_ends_alone(bench, fixed: GraphModel, emulator) -> None:
    worker = bench.load(fixed)
    emulator.let_fail("task:execute#1 code=507015")
    with pytest.raises(AclError, match="507015 .*AICORE_EXCEPTION") as caught:
        worker.execute(pair(), np.empty)
    assert (caught.value.code, caught.value.device, caught.value.stream) == (507015, 0, "copy out")
    assert caught.value.node == "node" and "float32[4, 4]" in caught.value.message
    assert np.array_equal(worker.execute(pair(), np.empty)[0], sum(pair()))
    assert worker.failure() is None


def test_the_call_behind_a_failed_one_is_right(bench, fixed: GraphModel, emulator) -> None:
    worker = bench.load(fixed)
    emulator.let_fail("task:execute#1 code=507015")
    calls = [worker.begin(pair(shift=shift), np.empty) for shift in (1, 2)]
    with pytest.raises(AclError):
        worker.finish(calls[0])
    assert np.array_equal(worker.finish(calls[1])[0], sum(pair(shift=2)))


def test_a_lost_device_is_said_to_be_lost(bench, fixed: GraphModel, emulator) -> None:
    worker = bench.load(fixed)
    emulator.let_fail("task:execute#1 lost")
    with pytest.raises(AclError, match="507010"):
        worker.execute(pair(), np.empty)
    failure = worker.failure()
    assert isinstance(failure, AclError) and failure.is_fatal
    with pytest.raises(AclError):
        worker.execute(pair(), np.empty)
    worker.close()
    emulator.let_fail("")
    assert np.array_equal(bench.load(fixed).execute(pair(), np.empty)[0], sum(pair()))


def test_a_run_that_hangs_ends_at_the_limit(bench, add_model: bytes, emulator) -> None:
    model = bench.compile(bench.point(add_model, input_shape=f"a:{ROWS},4;b:{ROWS},4", timeout="0.05"), 2)
    worker = bench.load(model)
    emulator.let_fail("task:execute#1 slow=400")
    with pytest.raises(AclError, match="507046"):
        worker.execute(pair(), np.empty)
    assert worker.failure() is not None, "its memory may still be written to"


def test_no_device_and_a_device_out_of_range(bench, add_model: bytes, emulator) -> None:
    model = bench.compile(bench.point(add_model, device="7"), 2)
    with pytest.raises(DeployError, match="device 7 is asked for, there are 1: 0 to 0"):
        bench.load(model)


@pytest.mark.parametrize("call", ["aclrtMalloc#1", "aclrtMallocHost#2", "aclmdlLoadFromMem", "aclrtCreateStream#3"])
def test_loading_that_fails_leaves_nothing(bench, fixed: GraphModel, emulator, call: str) -> None:
    emulator.let_fail(f"{call} code=207001")
    with pytest.raises(AclError) as caught:
        bench.load(fixed)
    assert caught.value.code == 207001 and caught.value.node == "node"
    emulator.let_fail("")
    worker = bench.load(fixed)
    free, total = worker._context.acl.memory()
    alone = total - free
    worker.close()
    worker = bench.load(fixed)
    free, total = worker._context.acl.memory()
    assert total - free == alone


def test_a_model_without_room_is_refused_before_it_is_loaded(bench, fixed: GraphModel, emulator, monkeypatch) -> None:
    from dflow_pne_npu.bindings import Acl

    monkeypatch.setattr(Acl, "memory", lambda _self: (100, 1000))
    with pytest.raises(DeployError, match="needs 1 KiB on npu:0, 0 of 0 KiB are free"):
        bench.load(fixed)


def test_a_closed_worker_says_so(bench, fixed: GraphModel, emulator) -> None:
    worker = bench.load(fixed)
    worker.begin(pair(), np.empty)
    worker.close()
    worker.close()
    with pytest.raises(RunError, match="after it had been closed"):
        worker.execute(pair(), np.empty)


def test_where_it_runs_is_told(bench, fixed: GraphModel, emulator) -> None:
    bench.load(fixed)
    assert bench.reports[-1] == "node runs on npu:0 (Ascend310P3)"


def test_float16_can_be_emulated(bench, add_model: bytes, emulator, monkeypatch) -> None:
    """2048.5 is 2048 in float16 before anything is computed, and 1 + 2**-12 is 1 when it comes out."""
    inputs = [np.full((ROWS, 4), value, np.float32) for value in (2048.5, -2048)]
    near = [np.full((ROWS, 4), value, np.float32) for value in (1, 2**-12)]
    sizes = f"a:{ROWS},4;b:{ROWS},4"
    exact = bench.load(bench.compile(bench.point(add_model, input_shape=sizes), 2))
    assert [exact.execute(pair, np.empty)[0][0, 0] for pair in (inputs, near)] == [0.5, np.float32(1 + 2**-12)]
    monkeypatch.setenv("ACL_EMULATOR_HALF", "1")
    for mode, wanted in (("force_fp16", [0, 1]), ("must_keep_origin_dtype", [0.5, np.float32(1 + 2**-12)])):
        model = bench.compile(bench.point(add_model, input_shape=sizes, precision_mode=mode), 2)
        half = bench.load(model)
        assert [half.execute(pair, np.empty)[0][0, 0] for pair in (inputs, near)] == wanted, mode
        assert inputs[0][0, 0] == 2048.5, "the caller's values are his"
