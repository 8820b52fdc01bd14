"""Answers of every small model on both libraries, and every kind of array."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from dflow_core.errors import RunError, TensorError
from dflow_core.types import Array, data_type_of

MODELS = Path(__file__).resolve().parents[3] / "tests" / "data" / "models"
CASES = [
    (path.name, runtime)
    for path in sorted([*MODELS.glob("*.onnx"), *MODELS.glob("*.pb")])
    for runtime in (("openvino", "onnxruntime") if path.suffix == ".onnx" else ("openvino",))
]
BOTH = pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
NUMBERS = {
    "FLOAT": np.float32, "FLOAT16": np.float16, "DOUBLE": np.float64, "INT8": np.int8, "UINT8": np.uint8,
    "INT16": np.int16, "UINT16": np.uint16, "INT32": np.int32, "UINT32": np.uint32, "INT64": np.int64,
    "UINT64": np.uint64, "BOOL": np.bool_, "BFLOAT16": ml_dtypes.bfloat16,
}


def test_the_models_are_there() -> None:
    assert len(CASES) >= 20


@pytest.mark.parametrize(("name", "runtime"), CASES)
def test_answers_match_the_reference(name: str, runtime: str, bench, pool, read_only: Callable[[Array], Array]) -> None:
    model = bench.compile(bench.point(name, runtime=runtime))
    worker = bench.load(model)
    with np.load(MODELS / f"{name}.npz") as data:
        feeds = [read_only(data[f"in_{spec.name}"]) for spec in model.inputs]
        names = [f"out_{spec.name}" for spec in model.outputs]
        expected = [data[name if name in data else f"out_{index}"] for index, name in enumerate(names)]
    for _ in range(3):
        results = worker.execute(feeds, pool)
        assert len(results) == len(expected)
        assert [data_type_of(result.dtype) for result in results] == [spec.dtype for spec in model.outputs]
        for result, want in zip(results, expected):
            np.testing.assert_allclose(result, want, rtol=0, atol=1e-5)


@BOTH
def test_dynamic_shapes_may_change_with_every_call(bench, pool, runtime: str) -> None:
    worker = bench.worker("add_dynamic.onnx", runtime=runtime)
    rng = np.random.default_rng(3)
    for size in [3, 1, 0, 7, 3, 1000, 0, 7, 2, 3, 1]:
        x, y = rng.random((2, size), np.float32)
        (result,) = worker.execute([x, y], pool)
        np.testing.assert_array_equal(result, x + y)


@BOTH
@pytest.mark.parametrize("kind", list(NUMBERS))
@pytest.mark.parametrize("shape", [(), (0,), (0, 4), (4, 0, 2), (1, 0), (5,)])
def test_empty_and_scalar_tensors_keep_shape_and_dtype(
    bench, pool, make_onnx, runtime: str, kind: str, shape: tuple[int, ...]
) -> None:
    """BC-067."""
    dims = [f"d{i}" for i in range(len(shape))]
    data = make_onnx([("Identity", "x", "y")], [("x", kind, dims)], [("y", kind, dims)])
    worker = bench.worker(data, runtime=runtime)
    array = np.ones(shape, NUMBERS[kind])
    for _ in range(3):
        (result,) = worker.execute([array], pool)
        assert (result.shape, result.dtype) == (array.shape, array.dtype)
        assert np.array_equal(result, array)


@BOTH
def test_extreme_numbers_pass_unchanged(bench, make_onnx, runtime: str) -> None:
    for kind in ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64"):
        if runtime == "openvino" and kind.endswith("64"):
            continue
        info = np.iinfo(NUMBERS[kind])
        data = make_onnx([("Identity", "x", "y")], [("x", kind, ["N"])], [("y", kind, ["N"])])
        array = np.array([info.min, info.max], NUMBERS[kind])
        assert np.array_equal(bench.worker(data, runtime=runtime).execute([array], np.empty)[0], array)


@pytest.mark.parametrize(("kind", "value"), [("INT64", 2**40), ("INT64", -(2**31) - 1), ("UINT64", 2**31)])
def test_numbers_that_openvino_would_cut_are_refused(bench, make_onnx, kind: str, value: int) -> None:
    """It computes 64-bit integers in 32 bits; 2**40 would come back as 0."""
    data = make_onnx([("Identity", "x", "y")], [("x", kind, ["N"])], [("y", kind, ["N"])])
    worker = bench.worker(data, runtime="openvino")
    with pytest.raises(TensorError, match=f"input 'x' holds {value}, but OpenVINO computes .*int64 in 32") as caught:
        worker.execute([np.array([1, value], NUMBERS[kind])], np.empty)
    assert "onnxruntime" in (caught.value.hint or "")
    assert worker.execute([np.array([7], NUMBERS[kind])], np.empty)[0].tolist() == [7]


def test_bfloat16_tensors_are_computed(bench, make_onnx) -> None:
    data = make_onnx([("Add", "x x", "y")], [("x", "BFLOAT16", ["N"])], [("y", "BFLOAT16", ["N"])])
    worker = bench.worker(data)
    array = np.array([1.5, 3], ml_dtypes.bfloat16)
    for given in (array, array.view(np.uint16)):
        (result,) = worker.execute([given], np.empty)
        assert result.astype(np.float32).tolist() == [3, 6]


@BOTH
def test_any_layout_and_byte_order_gives_the_same(bench, runtime: str, read_only, make_onnx) -> None:
    data = make_onnx([("Add", "x x", "y")], [("x", "FLOAT", ["N", "M"])], [("y", "FLOAT", ["N", "M"])])
    worker = bench.worker(data, runtime=runtime)
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    ways = [base.T, base[::2], base[:, ::-1], base.astype(">f4"), np.asfortranarray(base), read_only(base), base[1:1]]
    for array in ways:
        (result,) = worker.execute([array], np.empty)
        assert np.array_equal(result, array + array)


@BOTH
def test_odd_addresses_work(bench, runtime: str) -> None:
    worker = bench.worker("add_float.onnx", runtime=runtime)
    raw = np.zeros(64, np.uint8)
    for offset in (0, 1, 4, 8, 32):
        array = raw[offset : offset + 12].view(np.float32)
        array[:] = [1, 2, 3]
        (result,) = worker.execute([array, array], np.empty)
        assert result.tolist() == [2, 4, 6]


@BOTH
@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ([np.zeros(3, np.int32)] * 2, r"input 0 \('X1'\) does not fit: expected float\[3\], got int32\[3\]: dtype"),
        ([np.zeros(3, np.float32), np.zeros((3, 1), np.float32)], r"input 1 \('X2'\).*rank differs"),
        ([np.zeros(3, np.float32), np.zeros(4, np.float32)], r"input 1 \('X2'\).*shape differs"),
        ([np.zeros(3, np.float32)], "takes 2 inputs, got 1"),
        ([np.array(["a", "b", "c"])] * 2, "got string"),
        ([np.zeros(3, np.complex64)] * 2, "cannot be sent as a tensor"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(bench, runtime: str, arrays: list[Array], words: str) -> None:
    with pytest.raises(TensorError, match=words):
        bench.worker("add_float.onnx", runtime=runtime).execute(arrays, np.empty)


def test_strings_pass_byte_for_byte(bench, make_onnx) -> None:
    """BC-070: other scripts, empty texts, blanks, NUL inside and at the end."""
    data = make_onnx([("Identity", "x", "y")], [("x", "STRING", ["N"])], [("y", "STRING", ["N"])])
    worker = bench.worker(data)
    texts = ["深度", "é", "", " a ", "a\0b", "c\0", "x" * 100_000]
    (result,) = worker.execute([np.array(texts, object)], np.empty)
    assert result.tolist() == texts
    (result,) = worker.execute([np.array(["深度", "a\0b"])], np.empty)
    assert result.tolist() == ["深度", "a\0b"]
    (result,) = worker.execute([np.array([b"a\0b", "é".encode()], object)], np.empty)
    assert result.tolist() == ["a\0b", "é"]
    with pytest.raises(TensorError, match="must be UTF-8"):
        worker.execute([np.array([b"\xff"], object)], np.empty)
    with pytest.raises(TensorError, match="dtype differs"):
        worker.execute([np.zeros(1, np.float32)], np.empty)


@BOTH
def test_an_input_that_nothing_reads_is_taken_and_ignored(bench, make_onnx, runtime: str) -> None:
    data = make_onnx([("Relu", "x", "y")], [("u", "FLOAT", [2]), ("x", "FLOAT", ["N"])], [("y", "FLOAT", ["N"])])
    worker = bench.worker(data, runtime=runtime)
    (result,) = worker.execute([np.zeros(2, np.float32), np.array([1, -1], np.float32)], np.empty)
    assert result.tolist() == [1, 0]


@BOTH
def test_outputs_that_are_the_same_tensor_are_all_filled(bench, pool, make_onnx, runtime: str) -> None:
    data = make_onnx(
        [("Relu", "x", "a"), ("Identity", "a", "b"), ("Identity", "x", "c")], [("x", "FLOAT", ["N"])],
        [("a", "FLOAT", ["N"]), ("b", "FLOAT", ["N"]), ("c", "FLOAT", ["N"])],
    )
    worker = bench.worker(data, runtime=runtime)
    for _ in range(3):
        results = worker.execute([np.array([1, -1], np.float32)], pool)
        assert [result.tolist() for result in results] == [[1, 0], [1, 0], [1, -1]]


@BOTH
def test_a_failing_call_says_what_it_was_given(bench, make_onnx, runtime: str) -> None:
    data = make_onnx([("Add", "x z", "y")], [("x", "FLOAT", ["N"]), ("z", "FLOAT", ["M"])], [("y", "FLOAT", ["K"])])
    worker = bench.worker(data, runtime=runtime)
    with pytest.raises(RunError, match=r"failed: .*; inputs: x float32\[2\], z float32\[3\]") as caught:
        worker.execute([np.zeros(2, np.float32), np.zeros(3, np.float32)], np.empty)
    assert (caught.value.node, caught.value.instance) == ("node", 0)


@BOTH
def test_after_close_the_model_says_so(bench, runtime: str) -> None:
    worker = bench.worker("add_float.onnx", runtime=runtime)
    worker.close()
    worker.close()
    with pytest.raises(RunError, match="after it had been closed"):
        worker.execute([np.zeros(3, np.float32)] * 2, np.empty)
