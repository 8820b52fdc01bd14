"""Nodes exchanged inside graphs that are nodes, and inside graphs and models that functions call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import dflow_core as df
from dflow_core.graph import FlowGraphProcessPoint, FuncProcessPoint
from dflow_core.message import FlowMsg
from dflow_core.udf import MetaRunContext
from tests.system.case_support import MODELS, pids
from tests.system.update_support import adds, load

QUIET = {"output": "none"}
ADDS = ("add_float.onnx", "add_dynamic.onnx")
BOTH = pytest.mark.parametrize("mode", ["process", "inline"])


@df.pyflow
def join(a, b):
    return np.stack([a, b])


@df.pyflow
class Asks:
    """Calls its graph three times and gives every answer."""

    def __init__(self, called):
        self.called = called

    @df.method()
    def work(self, x):
        return np.stack([self.called(x) for _ in range(3)])


class AsksModel:
    """Calls a model that it has been given by name."""

    @df.proc_wrapper("i0,o0")
    def go(self, run_context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        outputs = run_context.run_flow_model("net", [inputs[0], inputs[0]], 30000)
        run_context.set_output(0, outputs[1][0])
        return 0


def around(graph: df.FlowGraph, name: str) -> df.FlowNode:
    return FlowGraphProcessPoint(graph).fnode(1, 1, name)


def one(function: object, name: str) -> df.FlowGraph:
    """A graph of one node."""
    return df.FlowGraph([function.fnode(name=name)(df.FlowData("x"))], name=f"graph of {name}")  # type: ignore[attr-defined]


@pytest.fixture
def deep() -> df.FlowGraph:
    """`a/b/c/leaf`, and the same graph `c` once more as `d`; both answers."""
    leaf = one(adds(0), "leaf")
    b = df.FlowGraph([around(leaf, "c")(df.FlowData("x"))], name="b")
    a = df.FlowGraph([around(b, "b")(df.FlowData("x"))], name="a")
    x = df.FlowData("x")
    return df.FlowGraph([join.fnode(name="join")(around(a, "a")(x), around(leaf, "d")(x))], QUIET, name="deep")


def test_a_node_in_graphs_inside_changes_wherever_its_graph_is_used_and_at_once(deep):
    """Under load: no transaction sees the old version in one place and the new one in the other."""
    with deep, load(deep) as seen:
        joining = next(s.pid for s in deep.running.deployment.status() if s.node == "join")
        for version in range(1, 5):
            path = ("a/b/c/leaf", "d/leaf")[version % 2]
            seen.wait_for_more(5)
            before = set(pids(deep))
            deep.update(path, adds(version))
            assert before & set(pids(deep)) == {joining}, "both places are new processes, the other node stays"
            assert deep.versions == {"a/b/c/leaf": version + 1, "d/leaf": version + 1}
        seen.wait_for_more(5)
    values = seen.values()
    assert all(a == b for a, b in values) and {int(a) for a, _ in values} == {0, 1, 2, 3, 4}


@BOTH
def test_a_graph_is_exchanged_for_another_of_the_same_shape(mode):
    x = df.FlowData("x")
    with df.FlowGraph([around(one(adds(1), "leaf"), "a")(x)], QUIET, mode=mode) as graph:
        assert graph(np.array(0)) == 1
        graph.update("a", FlowGraphProcessPoint(one(adds(2), "leaf")))
        assert (graph(np.array(0)), graph.versions) == (2, {"a/leaf": 2})
        with pytest.raises(df.UsageError, match="other ports"):
            graph.update("a", FlowGraphProcessPoint(one(adds(3), "foliage")))
        graph.update("a/leaf", adds(4))
        assert (graph(np.array(0)), graph.versions) == (4, {"a/leaf": 3})


@BOTH
def test_a_node_of_a_graph_that_a_function_calls_is_exchanged(mode):
    called = one(adds(1), "inner")
    with df.FlowGraph([Asks.fnode(called).work(df.FlowData("x"))], QUIET, mode=mode) as graph:
        assert graph(np.array(0)).tolist() == [1, 1, 1]
        (inner,) = [name for name in graph.running.model.submodels if name.endswith("/inner")]
        graph.update(inner, adds(2))
        assert graph(np.array(0)).tolist() == [2, 2, 2]
        graph.update(called.nodes[0], adds(3))
        assert (graph(np.array(0)).tolist(), graph.versions) == ([3, 3, 3], {inner: 3})
        with pytest.raises(df.UsageError, match=f"there is no node 'inner'(.|\n)*did you mean '{inner}'"):
            graph.update("inner", adds(4))


def test_every_call_of_a_transaction_is_answered_by_one_version_of_what_is_called():
    called = one(adds(0), "inner")
    node = Asks.fnode(called)
    node.set_options(instances=2)
    with df.FlowGraph([node.work(df.FlowData("x"))], QUIET) as graph, load(graph) as seen:
        for version in range(1, 5):
            seen.wait_for_more(5)
            callers = {s.pid for s in graph.running.deployment.status() if s.node == "Asks"}
            graph.update(called.nodes[0], adds(version))
            assert callers < set(pids(graph)), "those who call go on in the processes they have"
        seen.wait_for_more(5)
    assert {tuple(row.tolist()) for row in seen.values()} == {(n, n, n) for n in range(5)}


@BOTH
def test_a_model_that_a_function_calls_is_exchanged_and_a_broken_file_changes_nothing(mode, tmp_path):
    fixed, free = (df.GraphProcessPoint(df.Framework.ONNX, MODELS / name) for name in ADDS)
    with np.load(MODELS / "add_float.onnx.npz") as data:
        shape = next(iter(data.values())).shape
    point = FuncProcessPoint(py_func=AsksModel)
    point.add_invoked_closure("net", fixed)
    with df.FlowGraph([point.fnode(1, 1, "ask")(df.FlowData("x"))], QUIET, mode=mode) as graph:
        ones, more = np.ones(shape, np.float32), np.ones((5, *shape[1:]), np.float32)
        assert np.all(graph(ones) == 2)
        broken = tmp_path / "broken.onnx"
        broken.write_bytes((MODELS / "add_float.onnx").read_bytes()[:40])
        for wrong in (df.GraphProcessPoint(df.Framework.ONNX, broken), adds(1)):
            with pytest.raises(df.DflowError):
                graph.update("ask/net", wrong)
        with pytest.raises(df.DflowError):
            graph(more)
        graph.update("ask/net", free)
        assert np.all(graph(more) == 2) and graph.versions == {"ask/net": 2}


def inputs() -> Iterator[np.ndarray]:
    while True:
        yield np.array(0)


@BOTH
def test_results_say_which_versions_made_them(mode):
    """BC-088: also those that were made before an update and are fetched after it."""
    x = df.FlowData("x")
    chain = adds(1).fnode(name="b")(adds(0).fnode(name="a")(x))
    with df.FlowGraph([chain], QUIET, mode=mode) as graph:
        graph.feed({x: np.array(0)})
        results = graph.map(inputs(), in_flight=1, with_info=True)
        assert next(results)[1].versions == {}
        graph.update("b", adds(2))
        fed = graph.feed({x: np.array(0)})
        wanted = [(1, {}), (2, {"b": 2})]
        for value, versions in wanted:
            got, info = graph.fetch(with_info=True)
            assert (int(got), info.versions) == (value, versions)
        assert info.transaction_id == fed
        graph.update("a", adds(0))
        assert graph.update("b", adds(3)) > fed
        value, info = next(item for item in results if item[1].versions != {"b": 2})  # one was under way before
        assert (int(value), info.versions) == (3, {"a": 2, "b": 3}) and graph.versions == info.versions


def counting(factor: int):
    """A loop on its queue, with a count of its own."""

    @df.pyflow(stream_input="Queue")
    def loop(numbers):
        for seen, number in enumerate(numbers, 1):
            yield int(number) * factor + seen

    return loop


def test_a_function_that_takes_a_stream_is_exchanged_and_begins_anew():
    with df.FlowGraph([counting(100).fnode(name="loop")(df.FlowData("x"))], QUIET) as graph:
        assert [graph(5), graph(5)] == [501, 502]
        graph.update("loop", counting(1000))
        assert [graph(5), graph(5)] == [5001, 5002]


def test_a_function_that_takes_a_stream_stays_in_the_callers_thread():
    with df.FlowGraph([counting(100).fnode(name="loop")(df.FlowData("x"))], mode="inline") as graph:
        assert graph(5) == 501
        with pytest.raises(df.UsageError, match="takes a stream"):
            graph.update("loop", counting(1000))
        assert (graph(5), graph.versions) == (502, {})


@BOTH
def test_inputs_that_are_fed_apart_go_on_counting_where_they_were(mode):
    """Two ways through one graph, one of which lags behind: its next message has the id it would have had."""
    x, y = df.FlowData("x"), df.FlowData("y")
    ends = [adds(1).fnode(name="a")(x), adds(2).fnode(name="b")(y)]
    with df.FlowGraph(ends, QUIET, mode=mode) as graph:

        def ask(data: df.FlowData) -> tuple[int, list[object], dict[str, int]]:
            fed = graph.feed({data: np.array(0)}, partial=True)
            values, info = graph.fetch(with_info=True, timeout=20)
            assert info.transaction_id == fed
            return int(fed), [None if value is None else int(value) for value in values], info.versions

        assert [ask(x) for _ in range(3)] == [(n, [1, None], {}) for n in (1, 2, 3)]
        assert ask(y) == (1, [None, 2], {})
        assert graph.update("b", adds(5)) == 4
        assert [ask(y) for _ in range(2)] == [(n, [None, 5], {"b": 2}) for n in (2, 3)]


def test_what_the_old_version_raises_while_it_closes_comes_after_the_exchange(tmp_path):
    """Inline: the new one is in force, and the graph and its versions say so."""

    @df.pyflow
    class Sulks:
        @df.method()
        def work(self, x):
            return x

        def close(self):
            raise RuntimeError("not without a fight")

    with df.FlowGraph([Sulks.fnode().work(df.FlowData("x"))], mode="inline") as graph:
        with pytest.raises(RuntimeError, match="not without a fight"):
            graph.update("Sulks", adds(2))
        assert (graph(np.array(0)), graph.versions) == (2, {"Sulks": 2})


def test_a_model_that_shares_its_process_is_exchanged_and_the_others_in_there_go_on():
    """They move into the new process with it, and stay in their version."""
    x, y = df.FlowData("x"), df.FlowData("y")
    fixed, free = (df.GraphProcessPoint(df.Framework.ONNX, MODELS / name) for name in ADDS)
    with np.load(MODELS / "add_float.onnx.npz") as data:
        ones = np.ones(next(iter(data.values())).shape, np.float32)
    first, second = (fixed.fnode(2, 1, name).set_options(process="both") for name in ("first", "second"))
    with df.FlowGraph([second(first(x, y), y)], QUIET) as graph, load_of(graph, ones) as answers:
        assert len(set(pids(graph))) == 1
        for version in range(2, 5):
            before = set(pids(graph))
            graph.update("first", free if version % 2 == 0 else fixed)
            assert len(set(pids(graph))) == 1 and not before & set(pids(graph))
            assert graph.versions == {"first": version}
            assert {node.node: node.version for node in graph.stats().nodes} == {"first": version, "second": 1}
    assert answers and all(np.all(answer == 3) for answer in answers)


@contextlib.contextmanager
def load_of(graph: df.FlowGraph, item: np.ndarray) -> Iterator[list[object]]:
    """Requests one after the other inside the block, with the same tensor at both inputs; gives the answers."""
    stop, answers = threading.Event(), []

    def ask() -> None:
        while not stop.is_set():
            answers.append(graph(item, item))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join(60)
