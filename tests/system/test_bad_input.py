"""Bad input: one clear error at the earliest point, and nothing lost or left behind."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import dflow_core as df

MODELS = Path(__file__).parents[1] / "data" / "models"


@df.pyflow
def same(x):
    return x


@pytest.fixture(scope="module")
def adder() -> df.FlowGraph:
    """A model of two float32[3] inputs, running inline."""
    a, b = df.FlowData("a"), df.FlowData("b")
    node = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1)
    graph = df.FlowGraph([node(a, b)], mode="inline")
    graph.start()
    yield graph
    graph.close()


GOOD = np.ones(3, np.float32)


@pytest.mark.parametrize(("bad", "said"), [
    (np.ones(3), r"astype\(np.float32\)"),
    (np.ones((1, 3), np.float32), "rank"),
    (np.ones(4, np.float32), "shape"),
    (np.array(["a", "b", "c"]), "dtype"),
    ([1.0, 2.0, 3.0], "numpy array"),
    ({"a": 1}, "numpy array"),
    (np.ones(3, np.complex64), "complex64"),
    (np.ma.masked_array(np.ones(3, np.float32), [1, 0, 0]), "MaskedArray"),
])
def test_value_that_cannot_fit_a_model_is_refused_before_it_is_fed(
    adder: df.FlowGraph, bad: object, said: str
) -> None:
    with pytest.raises(df.TensorError, match=said):
        adder(GOOD, bad)
    assert adder.counters.fed == adder.counters.delivered
    np.testing.assert_array_equal(adder(GOOD, GOOD), [2, 2, 2])  # type: ignore[arg-type]


def test_big_endian_and_strided_arrays_are_converted(adder: df.FlowGraph) -> None:
    big = np.array([1, 2, 3], ">f4")
    strided = np.arange(6, dtype=np.float32)[::2]
    np.testing.assert_array_equal(adder(big, strided), [1, 4, 7])  # type: ignore[arg-type]


def test_unknown_input_is_refused_with_near_names(adder: df.FlowGraph) -> None:
    with pytest.raises(df.UsageError, match="no input 'aa'"):
        adder(GOOD, aa=GOOD)
    stranger = df.FlowData("a")
    with pytest.raises(df.UsageError, match="not an input"):
        adder.feed({stranger: GOOD, "b": GOOD})
    with pytest.raises(df.UsageError, match="misses a value for input 'b'"):
        adder(GOOD)
    with pytest.raises(df.UsageError, match="given twice"):
        adder(GOOD, a=GOOD)


def test_unknown_output_is_refused(adder: df.FlowGraph) -> None:
    with pytest.raises(df.UsageError, match="no output 'x'"):
        adder.fetch(["x"])
    with pytest.raises(df.UsageError, match="no output 3"):
        adder.fetch([3])


@pytest.mark.parametrize("window", [0, -1, 1.5, "3"])
def test_window_of_a_stream_that_is_no_number_of_transactions_is_refused(adder: df.FlowGraph, window: object) -> None:
    with pytest.raises(df.UsageError, match="in_flight=.*at least 1"):
        next(adder.map([(GOOD, GOOD)], in_flight=window))  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [1e300, float("inf"), -1, "3"])
def test_limits_no_clock_can_hold_are_refused_and_later_deadlines_are_kept(adder: df.FlowGraph, limit: object) -> None:
    for name in ("timeout", "deadline"):
        with pytest.raises(df.OptionError, match=name):
            adder(GOOD, GOOD, **{name: limit})  # type: ignore[arg-type]
    with pytest.raises(df.DeadlineError):
        adder(GOOD, GOOD, deadline=0)


def test_copy_of_a_graph_is_a_graph_that_does_not_run(adder: df.FlowGraph) -> None:
    """Copies and pickles hold what is wanted, not what runs."""
    for again in (copy.copy(adder), copy.deepcopy(adder), pickle.loads(cloudpickle.dumps(adder))):
        with pytest.raises(df.ClosedError):
            again.running  # noqa: B018
        with again:
            np.testing.assert_array_equal(again(GOOD, GOOD), [2, 2, 2])
    assert adder(GOOD, GOOD) is not None


@df.pyflow
def boxed(x):
    return {"a": x + 0, "deep": [np.zeros((2, 2)).T]}


def test_copies_of_results_are_writable_also_inside_objects() -> None:
    with df.FlowGraph([boxed.fnode()(df.FlowData("x"))], mode="inline") as graph:
        value = np.arange(3)
        shared, own = graph(value), graph(value, copy=True)
        for array in (shared["a"], shared["deep"][0]):  # type: ignore[index]
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 7
        for array in (own["a"], own["deep"][0]):  # type: ignore[index]
            array[0] = 7
        assert own["a"].tolist() == [7, 1, 2] and shared["a"].tolist() == [0, 1, 2]  # type: ignore[index]
        (streamed,) = graph.map([value], copy=True)
        streamed["a"][0] = 7


def test_use_after_close_is_refused() -> None:
    x = df.FlowData("x")
    graph = df.FlowGraph([same.fnode()(x)], mode="inline")
    with pytest.raises(df.ClosedError, match="not running"):
        graph(1)
    with graph:
        pass
    for use in (lambda: graph(1), lambda: graph.feed({x: 1}), lambda: graph.fetch(), lambda: next(graph.map([1]))):
        with pytest.raises(df.ClosedError, match="was closed"):
            use()


def test_empty_feed_needs_the_end_of_sequence_flag(adder: df.FlowGraph) -> None:
    with pytest.raises(df.UsageError, match="EOS"):
        adder.feed({})


@pytest.mark.parametrize("content", [None, b"", b"not a model at all", "cut"])
def test_missing_or_broken_model_file_is_named(tmp_path: Path, content: object) -> None:
    """BC-084: the path is printed unharmed."""
    folder = tmp_path / "a b'\"$x é"
    folder.mkdir()
    path = folder / "модель.onnx"
    if content == "cut":
        path.write_bytes((MODELS / "conv_small.onnx").read_bytes()[:5000])
    elif content is not None:
        path.write_bytes(content)  # type: ignore[arg-type]
    x = df.FlowData("x")
    graph = df.FlowGraph([df.GraphProcessPoint(df.Framework.ONNX, path).fnode(1, 1)(x)])
    with pytest.raises((df.GraphError, df.CompileError)) as caught:
        graph.start()
    assert str(path) in str(caught.value)


def test_unknown_option_names_the_nearest() -> None:
    x = df.FlowData("x")
    with pytest.raises(df.OptionError, match="queue_depth"):
        df.FlowGraph([same.fnode()(x)], {"queue_dept": "3"}).start()
    with pytest.raises(df.OptionError, match="instances"):
        same.fnode(instance=3)
    df.finalize()
    with pytest.raises(df.OptionError):
        df.init({"no_such_option_at_all": "1"})


def test_unknown_engine_names_what_there_is() -> None:
    """BC-079."""
    x = df.FlowData("x")
    node = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "conv_small.onnx").fnode(1, 1)
    node.set_options(engine="NPUX")
    with pytest.raises(df.DflowError, match="NPUX"):
        df.FlowGraph([node(x)]).start()


def test_code_that_cannot_travel_names_the_attribute() -> None:
    """BC-077."""
    lock = threading.Lock()

    with pytest.raises(df.PackagingError, match="lock"):
        @df.pyflow
        def uses_lock(x):
            with lock:
                return x

        uses_lock.fnode()


def test_all_faults_of_a_graph_come_at_once() -> None:
    """BC-093."""
    x = df.FlowData("x")
    first = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_float.onnx").fnode(2, 1, "first")
    first(x, df.FlowData("y"))
    second = df.GraphProcessPoint(df.Framework.ONNX, MODELS / "add_f16.onnx").fnode(2, 1, "second")
    second._sources[0] = first.outputs[0]
    second.set_attr("no_such_attribute", 1)
    with pytest.raises(df.GraphError) as caught:
        df.FlowGraph([second.outputs[0]]).start()
    kinds = {fault.kind for fault in caught.value.faults}
    assert {"unconnected", "attribute"} <= kinds and kinds & {"dtype", "shape"}


class Unmakeable:
    def __reduce__(self):
        return int, ("no number",)


@df.pyflow
def sometimes_unmakeable(n):
    return Unmakeable() if n == 1 else n


def test_result_that_cannot_be_made_again_is_an_error_at_its_place() -> None:
    with df.FlowGraph([sometimes_unmakeable.fnode()(df.FlowData("x"))], mode="inline") as graph:
        with pytest.raises(df.PackagingError, match="ValueError: invalid literal") as caught:
            graph(1)
        assert caught.value.trans_id == 1
        first, second, third = graph.map([0, 1, 2], errors="return")
        assert (first, third) == (0, 2) and isinstance(second, df.PackagingError)
        with pytest.raises(df.PackagingError):
            list(graph.map([1]))
        graph.feed({"x": 1})
        with pytest.raises(df.PackagingError):
            graph.fetch()
        assert graph(3) == 3 and graph.counters.failed == 0


def test_value_that_cannot_be_pickled_is_refused_when_fed() -> None:
    x = df.FlowData("x")
    with df.FlowGraph([same.fnode()(x)], mode="inline") as graph:
        with pytest.raises(df.PackagingError, match="lock"):
            graph(threading.Lock())
        assert graph.counters.fed == 0
