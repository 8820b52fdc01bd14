"""Cases of area E: types and tensors, through every hop of a graph."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import numpy as np
import pytest

import dflow_core as df
from tests.system.case_support import MIB, MODELS, chain, check_idle

DTYPES = ("f4", "f2", "i1", "i4", "u1", "i2", "u2", "u4", "i8", "u8", "f8", "?")


@df.pyflow
def same(x):
    return x


@df.pyflow
def copied(x):
    return np.array(x)


@df.pyflow
def layout(case):
    """Returns arrays of all layouts."""
    return LAYOUTS[case](np.arange(60, dtype=np.int32).reshape(3, 4, 5))


LAYOUTS = {
    "transposed": lambda a: a.T,
    "every second": lambda a: a[::2, :, 1::2],
    "backwards": lambda a: a[::-1, :, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[0], (7, 4, 5)),
    "fortran": lambda a: np.asfortranarray(a),
    "permuted": lambda a: a.transpose(2, 0, 1),
    "size one, odd strides": lambda a: np.lib.stride_tricks.as_strided(a[:1, :, :1], (1, 4, 1), (77, a.strides[1], 13)),
    "big-endian": lambda a: a.astype(">i4"),
    "slice of a slice": lambda a: a[1:][..., 2:4][:, ::3],
}


@pytest.fixture(scope="module")
def hops() -> Iterator[df.FlowGraph]:
    """Two functions in processes of their own: one hands on what it got, one makes a copy."""
    with chain(same, copied) as graph:
        yield graph


@pytest.fixture(scope="module")
def batches() -> Iterator[tuple[df.FlowGraph, df.FlowGraph]]:
    """A graph that puts two together and takes them apart, and one with a window of time."""
    count, window = same.fnode("count"), same.fnode("window")
    count.map_input(0, count.point, 0, [df.CountBatch(2)])
    window.map_input(0, window.point, 0, [df.TimeBatch(-1)])
    rows = df.builtin_node("_BuiltIn_Unbatch", 1, 1)(count(df.FlowData("x")))
    with (
        df.FlowGraph([rows]) as counted,  # type: ignore[list-item]
        df.FlowGraph([window(df.FlowData("x"))]) as timed,  # type: ignore[list-item]
    ):
        yield counted, timed


# ------------------------------------------------------------------------------- BC-066, BC-067: layouts and shapes

@pytest.mark.parametrize("case", LAYOUTS)
def test_array_of_any_layout_arrives_as_if_it_were_contiguous(hops: df.FlowGraph, case: str) -> None:
    """BC-066: called, fed, inside an object, and in place of an allocated one."""
    array = LAYOUTS[case](np.arange(60, dtype=np.int32).reshape(3, 4, 5))
    wanted = np.ascontiguousarray(array)
    hops.feed({"x": array})
    allocated = hops.alloc_tensor(array.shape, array.dtype.newbyteorder("="))
    allocated[...] = array
    for got in (
        hops(array, timeout=20), hops.fetch(timeout=20), hops(allocated, timeout=20),
        hops([array], timeout=20)[0],  # type: ignore[index]
    ):
        assert isinstance(got, np.ndarray) and got.shape == wanted.shape
        np.testing.assert_array_equal(got, wanted)
        assert got.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=")


def test_array_of_any_layout_may_be_returned() -> None:
    """BC-066: by user code, to a function and to a model."""
    with chain(layout, same) as graph:
        for case in LAYOUTS:
            wanted = np.ascontiguousarray(LAYOUTS[case](np.arange(60, dtype=np.int32).reshape(3, 4, 5)))
            np.testing.assert_array_equal(graph(case, timeout=20), wanted)  # type: ignore[arg-type]


def test_model_gets_the_values_of_a_permuted_image() -> None:
    """BC-066: NHWC to NCHW in the node before, and when fed."""
    reference = np.load(MODELS / "conv_small.onnx.npz")
    (name,) = [n for n in reference.files if n.startswith("in_")]
    (output,) = [n for n in reference.files if n.startswith("out_")]
    image = reference[name]
    hwc = np.ascontiguousarray(np.moveaxis(image, 1, -1))

    @df.pyflow
    def to_chw(picture):
        return np.moveaxis(picture, -1, 1)

    x = df.FlowData("x")
    point = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "conv_small.onnx")
    with df.FlowGraph([point.fnode(1, 1)(to_chw.fnode()(x))]) as graph:
        np.testing.assert_allclose(graph(hwc, timeout=30), reference[output], atol=1e-4)  # type: ignore[arg-type]
    with df.FlowGraph([point.fnode(1, 1)(x)]) as graph:
        for strange in (np.moveaxis(hwc, -1, 1), np.asfortranarray(image), image.astype(">f4")):
            np.testing.assert_allclose(graph(strange, timeout=30), reference[output], atol=1e-4)  # type: ignore[arg-type]


SHAPES = ((), (0,), (0, 4), (4, 0, 2), (1, 0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_and_scalar_tensors_of_every_type_pass_every_hop(
    hops: df.FlowGraph, batches: tuple[df.FlowGraph, df.FlowGraph], dtype: str
) -> None:
    """BC-067: functions, CountBatch and Unbatch; TimeBatch takes scalars and refuses empty ones, by its rules."""
    counted, timed = batches
    for shape in SHAPES:
        value = np.ones(shape, dtype)
        got = hops(value, timeout=20)
        assert isinstance(got, np.ndarray) and (got.shape, got.dtype) == (value.shape, value.dtype)
        for part in counted.map([value, value], timeout=20):
            assert isinstance(part, np.ndarray) and (part.shape, part.dtype) == (value.shape, value.dtype)
        timed.feed({"x": value})
        timed.feed({"x": value}, info=df.FeedInfo(flow_flags=df.Flag.SEG))
        if not value.size:
            for _ in range(2):
                with pytest.raises(df.NodeError, match="which is empty"):
                    timed.fetch(timeout=20)
            continue
        batch = timed.fetch(timeout=20)
        assert isinstance(batch, np.ndarray) and (batch.shape, batch.dtype) == ((2, *shape), value.dtype)
        np.testing.assert_array_equal(batch, np.ones((2, *shape), dtype))


def test_nothing_is_not_an_empty_tensor(hops: df.FlowGraph) -> None:
    """BC-067."""
    @df.pyflow
    def what(x):
        return "nothing" if x is None else f"{x.dtype}{x.shape}"

    with chain(what) as graph:
        assert [graph(value, timeout=20) for value in (None, np.zeros(0), np.zeros(()))] == [
            "nothing", "float64(0,)", "float64()"
        ]
    assert hops(None, timeout=20) is None or hops(None, timeout=20)[()] is None  # type: ignore[index]


def test_empty_tensors_pass_a_model_and_a_join() -> None:
    """BC-067: free dimensions of 0; a model with fixed ones refuses them by name."""
    @df.pyflow
    def shapes(a, b):
        return a.shape, b.shape

    a, b = df.FlowData("a"), df.FlowData("b")
    model = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_dynamic.onnx").fnode(2, 1)
    free = np.load(MODELS / "add_dynamic.onnx.npz")
    first = next(free[n] for n in free.files if n.startswith("in_"))
    empty = np.zeros((0, *first.shape[1:]), first.dtype)
    with df.FlowGraph([shapes.fnode()(model(a, b), a)]) as graph:
        assert graph(empty, empty, timeout=30) == (empty.shape, empty.shape)
    fixed = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1)
    with df.FlowGraph([fixed(a, b)], mode="inline") as graph, pytest.raises(df.TensorError, match="'a'"):  # type: ignore[list-item]
        graph(np.zeros((0,), np.float32), np.zeros((0,), np.float32))


# ------------------------------------------------------------------------------- BC-070, BC-071: strings

STRINGS = {
    "unicode": np.array(["深度", "é", "", " a "]),
    "bytes with NUL": np.array([b"a\0b", b"c\0", b"", "é\0x"], object),
    "two dimensions": np.array([["a", "bb"], ["ccc", ""]]),
    "one long text": np.array(["y深" * 350_000], object),
    "no text": np.array([], "U5"),
    "0-d": np.array("深"),
    "lone surrogate": np.array(["\udcff"], object),
    "every second": np.array(["a", "b", "c", "d"])[::2],
    "fixed bytes": np.array([b"ab", b"c"]),
}


@pytest.mark.parametrize("case", STRINGS)
def test_strings_arrive_byte_for_byte_with_their_shape(hops: df.FlowGraph, case: str) -> None:
    """BC-070: called and fed; unicode, NUL inside and at the end, empty, 1 MiB."""
    value = STRINGS[case]
    hops.feed({"x": value})
    for got in (hops(value, timeout=20), hops.fetch(timeout=20)):
        assert isinstance(got, np.ndarray) and got.shape == value.shape and got.dtype.kind == value.dtype.kind
        assert got.tolist() == value.tolist()


def test_texts_in_python_objects_stay_what_they_are() -> None:
    """BC-070: str, bytes, lists of them, and a mixed object array (a column of a table)."""
    column = np.array(["深度", None, 3.5, b"x\0"], object)
    for value in ("深度\0", b"a\0b\0", ["é", "", b"\0"], {"名": ("x", "")}):
        with chain(same) as graph:
            assert graph(value, timeout=20) == value
            assert graph(column, timeout=20).tolist() == column.tolist()  # type: ignore[attr-defined]


def test_many_strings_cost_little_more_than_their_bytes() -> None:
    """BC-071: 100 000 strings of 5 bytes against the same bytes as numbers, best of several; CPU time, inline."""
    texts = np.array([f"{n:05d}" for n in range(100_000)])
    numbers = np.ascontiguousarray(texts).view(np.uint8)

    def best(value: np.ndarray) -> float:
        times = []
        for _ in range(5):
            began = time.process_time()
            graph(value)
            times.append(time.process_time() - began)
        return min(times)

    with chain(same, mode="inline") as graph:
        assert best(texts) < 10 * best(numbers) + 0.02
        as_objects = texts.astype(object)
        assert best(as_objects) < 1.0  # one pass over the objects, which numpy has no layout for


# ------------------------------------------------------------------------------- BC-072, BC-074: sizes

@df.pyflow
def fingerprint(blob):
    return len(blob), hashlib.sha256(blob).hexdigest(), blob


@pytest.mark.parametrize("exponents", [
    range(10, 25), pytest.param(range(25, 30), marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
])
def test_binary_results_are_never_cut(exponents: range) -> None:
    """BC-072: 2^k - 1 to 2^k + 1 bytes with zeros at the end, as bytes and inside an object."""
    with chain(fingerprint, options={"memory_limit": "20G"}) as graph:
        for exponent in exponents:
            for size in (2**exponent - 1, 2**exponent, 2**exponent + 1):
                blob = (b"\0\x01\xff" * (size // 3 + 1))[: size - 5] + b"\0" * 5
                length, digest, back = graph(blob, timeout=60)  # type: ignore[misc]
                assert (length, digest) == (size, hashlib.sha256(blob).hexdigest())
                assert back == blob
        check_idle(graph)


def test_messages_grow_and_shrink_on_one_edge() -> None:
    """BC-074: 1 KiB to 128 MiB and small again; one above the limit is an error of that transaction only."""
    with chain(same, options={"memory_limit": "600M"}) as graph:
        for size in (1024, 64 * 1024, MIB, 16 * MIB, 128 * MIB, 1024, 300):
            value = np.full(size, size % 251, np.uint8)
            got = graph(value, timeout=60)
            assert got.nbytes == size and got[0] == got[-1] == size % 251  # type: ignore[attr-defined, index]
            del got
        with pytest.raises(df.PoolExhaustedError, match=r"message of \d+ bytes [^\n]+\n.*memory_limit") as caught:
            graph(np.zeros(700 * MIB, np.uint8), timeout=60)
        assert str(600 * MIB) in str(caught.value)
        assert graph(5, timeout=20) == 5
        check_idle(graph)


def test_result_above_the_limit_is_an_error_of_its_transaction_that_names_size_and_option() -> None:
    """BC-074: made by a node; the node works on."""
    @df.pyflow
    def make(size):
        return np.zeros(size, np.uint8)

    with chain(make, options={"memory_limit": "64M"}) as graph:
        results = list(graph.map([MIB, 65 * MIB, 2 * MIB], errors="return", in_flight=1, timeout=20))
        assert [r.nbytes for r in results if isinstance(r, np.ndarray)] == [MIB, 2 * MIB]
        error = results[1]
        assert isinstance(error, df.NodeError) and error.node == "make" and error.trans_id == 2
        assert "memory_limit" in str(error) and str(64 * MIB) in str(error)


def test_model_output_grows_with_its_input_and_shrinks_again() -> None:
    """BC-074: an output whose size is not known before the run."""
    x = df.FlowData("x")
    reference = np.load(MODELS / "nonzero.onnx.npz")
    given = next(reference[n] for n in reference.files if n.startswith("in_"))
    with df.FlowGraph([df.GraphProcessPoint(df.Framework.ONNX, MODELS / "nonzero.onnx").fnode(1, 1)(x)]) as graph:
        for fill in (0, 1, 0, 1):
            found = graph(np.full_like(given, fill), timeout=30)
            assert found.shape == (given.ndim, fill * given.size)  # type: ignore[attr-defined]
