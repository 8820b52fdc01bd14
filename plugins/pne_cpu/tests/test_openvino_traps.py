"""Each trap of OpenVINO that was measured, and that the plugin must not fall into."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dflow_core.errors import RunError
from dflow_core.types import Array
from dflow_pne_cpu.runtimes.base import words_of


def of(worker: object) -> object:
    """The compiled model inside a worker."""
    return worker._session._compiled  # type: ignore[attr-defined]


@pytest.mark.parametrize("threads", [1, 2])
def test_precision_pinning_and_threads_are_set(bench, threads: int) -> None:
    model = bench.compile(bench.point("conv_medium.onnx", runtime="openvino"))
    compiled = of(bench.load(model, threads))
    assert compiled.get_property("INFERENCE_PRECISION_HINT").to_string() == "f32"
    assert compiled.get_property("ENABLE_CPU_PINNING") is False
    assert compiled.get_property("INFERENCE_NUM_THREADS") == threads
    assert compiled.get_property("NUM_STREAMS") == 1


def test_bfloat16_is_used_where_it_is_asked_for(bench) -> None:
    import openvino

    if "BF16" not in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        pytest.skip("this CPU has no bfloat16")
    compiled = of(bench.worker("conv_medium.onnx", runtime="openvino", precision="bf16"))
    assert compiled.get_property("INFERENCE_PRECISION_HINT").to_string() == "bf16"


def test_no_thread_is_pinned(bench) -> None:
    before = os.sched_getaffinity(0)
    worker = bench.worker("conv_medium.onnx", runtime="openvino")
    worker.execute([np.zeros((1, 3, 128, 128), np.float32)], np.empty)
    for task in os.listdir("/proc/self/task"):
        assert os.sched_getaffinity(int(task)) == before


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, ["low", "high"]),
        ("high,low", ["high", "low"]),
        ("split:1,low:0", ["split:1", "low"]),
        ("split,split:1", ["split", "split:1"]),
    ],
)
def test_outputs_of_a_tensorflow_graph_come_as_asked(bench, names: str | None, expected: list[str]) -> None:
    params = {"output_names": names} if names else None
    model = bench.compile(bench.point("two_outputs.pb", load_params=params))
    assert [spec.name for spec in model.outputs] == expected
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    answers = {"low": x[:2] * 2, "high": x[2:] + 1, "split": x[:2], "split:1": x[2:]}
    worker = bench.load(model)
    for _ in range(2):
        for result, name in zip(worker.execute([x], np.empty), expected):
            np.testing.assert_array_equal(result, answers[name])


@pytest.mark.parametrize("names", ["Placeholder_1,Placeholder", "Placeholder_1:0,Placeholder:0"])
def test_inputs_of_a_tensorflow_graph_come_as_asked(bench, make_onnx, names: str) -> None:
    model = bench.compile(bench.point("add.pb", load_params={"input_data_names": names}))
    assert [spec.name for spec in model.inputs] == ["Placeholder_1", "Placeholder"]
    (result,) = bench.load(model).execute([np.ones(3, np.float32), np.zeros(3, np.float32)], np.empty)
    assert result.tolist() == [1, 1, 1]


def test_read_only_inputs_are_used_in_place(bench, read_only: Callable[[Array], Array]) -> None:
    worker = bench.worker("add_float.onnx", runtime="openvino")
    feed = read_only(np.ones(3, np.float32))
    worker.execute([feed, feed], np.empty)
    held = worker._session._slots[0].request.get_input_tensor(0)
    assert held.data.ctypes.data == feed.ctypes.data
    assert not feed.flags.writeable


def test_a_protected_mapping_is_read_in_place(bench) -> None:
    import mmap

    descriptor = os.memfd_create("block")
    try:
        os.write(descriptor, np.array([1, 2, 3], np.float32).tobytes().ljust(4096, b"\0"))
        with mmap.mmap(descriptor, 4096, prot=mmap.PROT_READ) as view:
            feed = np.frombuffer(view, np.float32, 3)
            (result,) = bench.worker("add_float.onnx", runtime="openvino").execute([feed, feed], np.empty)
            assert result.tolist() == [2, 4, 6]
            del feed
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_outputs_of_known_size_are_written_in_place(bench, pool, runtime: str) -> None:
    static = bench.worker("add_float.onnx", runtime=runtime)
    (result,) = static.execute([np.ones(3, np.float32)] * 2, pool)
    assert result is pool.arrays[-1]
    dynamic = bench.worker("add_dynamic.onnx", runtime=runtime)
    for size in (3, 3, 5, 3, 5):
        count = len(pool.arrays)
        (result,) = dynamic.execute([np.ones(size, np.float32)] * 2, pool)
        assert result is pool.arrays[-1]
        assert len(pool.arrays) == count + 1
        assert result.tolist() == [2] * size


def test_shapes_that_are_computed_are_followed(bench, make_onnx) -> None:
    """As the OCR recogniser does it: a shape passed through an Identity, which hides its value from shape inference."""
    data = make_onnx(
        [("Shape", "x", "s"), ("Identity", "s", "t"), ("Reshape", "x t", "y")],
        [("x", "FLOAT", ["N", "M"])], [("y", "FLOAT", ["N", "M"])],
    )
    assert bench.worker(data, runtime="openvino")._session.traits.to_text() == "[[true], true]"


def test_a_shape_that_is_an_input_is_not_trusted(bench, pool, make_onnx) -> None:
    inputs = [("x", "FLOAT", ["N"]), ("s", "INT64", [2])]
    data = make_onnx([("Reshape", "x s", "y")], inputs, [("y", "FLOAT", ["A", "B"])])
    worker = bench.worker(data, runtime="openvino")
    assert worker._session.traits.to_text() == "[[false], false]"
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (6, 1), (1, 6), (3, 2), (2, 3)):
        assert worker.execute([x, np.array(shape)], pool)[0].shape == shape


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_an_output_whose_size_depends_on_data_is_never_lost(bench, pool, runtime: str) -> None:
    """A bound buffer smaller than the result would be left unwritten without an error, then abort the process."""
    worker = bench.worker("nonzero.onnx", runtime=runtime)
    rng = np.random.default_rng(5)
    for _ in range(100):
        x = (rng.random(40) < rng.random()).astype(np.float32)
        (result,) = worker.execute([x], pool)
        np.testing.assert_array_equal(result, np.nonzero(x))
        assert result is pool.arrays[-1]


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_known_and_unknown_outputs_mix(bench, pool, make_onnx, runtime: str) -> None:
    data = make_onnx([("NonZero", "x", "where"), ("Relu", "x", "y")], [("x", "FLOAT", ["N"])],
                     [("where", "INT64", [1, "M"]), ("y", "FLOAT", ["N"])])
    worker = bench.worker(data, runtime=runtime)
    rng = np.random.default_rng(6)
    for _ in range(50):
        x = np.where(rng.random(rng.integers(1, 5)) < 0.5, 0, -1).astype(np.float32)
        where, y = worker.execute([x], pool)
        np.testing.assert_array_equal(where, np.nonzero(x))
        assert y.tolist() == [0] * len(x)


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_branches_of_different_shapes_are_never_bound_blindly(bench, pool, make_onnx, runtime: str) -> None:
    from onnx import TensorProto, helper

    def branch(op: str, inputs: list[str], name: str, **attributes: int) -> object:
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, inputs, [name], **attributes)], name, [], [out])

    body = {"then_branch": branch("Identity", ["x"], "a"), "else_branch": branch("Concat", ["x", "x"], "b", axis=0)}
    data = make_onnx([("If", "c", "y", body)], [("c", "BOOL", []), ("x", "FLOAT", ["N"])], [("y", "FLOAT", ["M"])])
    worker = bench.worker(data, runtime=runtime)
    x = np.array([1, -1], np.float32)
    for flag in [True, True, False, True, False, False, True]:
        (result,) = worker.execute([np.array(flag), x], pool)
        assert result.tolist() == ([1, -1] if flag else [1, -1, 1, -1])


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_failing_calls_are_told_and_change_no_later_answer(bench, pool, make_onnx, runtime: str) -> None:
    """OpenVINO with one thread swallows exceptions of a synchronous call, and after one may answer wrongly."""
    data = make_onnx([("MatMul", "x z", "y")], [("x", "FLOAT", ["N", "K"]), ("z", "FLOAT", ["L", "M"])],
                     [("y", "FLOAT", ["N", "M"])])
    worker = bench.worker(data, runtime=runtime)
    rng = np.random.default_rng(0)
    failed = 0
    for _ in range(400):
        n, k, m = rng.integers(1, 9, 3)
        wrong = rng.random() < 0.3
        x, z = rng.random((n, k), np.float32), rng.random((k + wrong, m), np.float32)
        if wrong:
            failed += 1
            with pytest.raises(RunError):
                worker.execute([x, z], pool)
        else:
            np.testing.assert_allclose(worker.execute([x, z], pool)[0], x @ z, atol=1e-5)
    assert failed > 50


def test_an_answer_that_was_not_written_is_noticed(bench, pool) -> None:
    """What a swallowed exception looks like: the call returns and the output is as it was."""
    worker = bench.worker("add_float.onnx", runtime="openvino")
    feeds = [np.ones(3, np.float32)] * 2
    for _ in range(2):
        worker.execute(feeds, pool)
    slot = worker._session._slots[0]
    real, calls = slot.request, []

    class Deaf:
        """A request whose synchronous call does nothing."""

        def infer(self, **_how: object) -> None:
            calls.append("infer")

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    slot.request = Deaf()
    (result,) = worker.execute(feeds, pool)
    assert calls == ["infer"]
    assert result.tolist() == [2, 2, 2]


def test_the_mark_of_an_unwritten_answer_may_be_a_true_answer(bench, pool, make_onnx) -> None:
    from dflow_pne_cpu.runtimes import openvino_session

    data = make_onnx([("Identity", "x", "y")], [("x", "UINT8", [8])], [("y", "UINT8", [8])])
    worker = bench.worker(data, runtime="openvino")
    for _ in range(3):
        (result,) = worker.execute([openvino_session._MARK.copy()], pool)
        assert result.tobytes() == openvino_session._MARK.tobytes()


def test_arrays_are_not_kept_after_a_call(bench, pool) -> None:
    import sys

    for runtime in ("openvino", "onnxruntime"):
        worker = bench.worker("add_float.onnx", runtime=runtime)
        feed = np.ones(3, np.float32)
        for _ in range(3):
            before = sys.getrefcount(feed)
            (result,) = worker.execute([feed, feed], np.empty)
            assert sys.getrefcount(feed) == before
            assert sys.getrefcount(result) == 2


def test_memory_of_earlier_calls_may_be_gone(bench) -> None:
    """Blocks go back to the pool, and mappings away, between calls; nothing may touch them later."""
    import mmap

    for runtime in ("openvino", "onnxruntime"):
        worker = bench.worker("add_dynamic.onnx", runtime=runtime)
        for size in (1000, 1000, 10, 2000, 10):
            with mmap.mmap(-1, 16384) as block:
                feed = np.frombuffer(block, np.float32, size)
                feed[:] = 1
                (result,) = worker.execute([feed, feed], np.empty)
                assert result.tolist() == [2] * size
                del feed


def test_two_threads_run_two_models_at_once(models: Path, bench) -> None:
    """Instances of different models share an executor process, a thread each."""
    from concurrent.futures import ThreadPoolExecutor

    model = bench.compile(bench.point("conv_small.onnx", runtime="openvino"))
    workers = [bench.load(model) for _ in range(2)]
    with np.load(models / "conv_small.onnx.npz") as data:
        feed, want = data["in_image"], data["out_probs"]

    def work(worker: object) -> None:
        for _ in range(100):
            (result,) = worker.execute([feed], np.empty)  # type: ignore[attr-defined]
            np.testing.assert_allclose(result, want, atol=1e-5)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, workers))


def test_exceptions_without_words_get_some() -> None:
    assert words_of(RuntimeError("")) == "RuntimeError without a word"
    text = "Exception from src/a.cpp:1:\nCheck 'x' failed at b.cpp:2:\nFrontEnd API failed with X:\nNo reader for it\n"
    assert words_of(RuntimeError(text)) == "No reader for it"
    assert words_of(RuntimeError("Check 'x' failed at b.cpp:2:")) == "Check 'x' failed at b.cpp:2:"
