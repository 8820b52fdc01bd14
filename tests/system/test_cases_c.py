"""Cases of area C: batching and windows, through whole graphs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import wait_until
from tests.system.case_support import check_idle, pids


@pytest.fixture(params=["process", "inline"])
def mode(request: pytest.FixtureRequest) -> str:
    """Both ways to run."""
    return str(request.param)


@df.pyflow
def row_sums(batch):
    return batch.reshape(len(batch), -1).sum(axis=1)


@df.pyflow
def shape_of(batch):
    return batch.shape


@df.pyflow
def as_list(batch):
    return batch.tolist()


def batched(function: object, *batches: df.CountBatch | df.TimeBatch, sources: Sequence[object]) -> df.FlowOutput:
    """A node of a function with a batch on each of its inputs."""
    node: df.FlowNode = function.fnode()  # type: ignore[attr-defined]
    for index, batch in enumerate(batches):
        node.map_input(index, node.point, index, [batch])
    node(*sources)  # type: ignore[arg-type]
    return node.outputs[0]


def apart(function: object, batch: df.CountBatch | df.TimeBatch, mode: str, **params: object) -> df.FlowGraph:
    """Batch, function, and a node that takes the batch apart again; the input is `x`."""
    rows = df.builtin_node("_BuiltIn_Unbatch", 1, 1, **params)(batched(function, batch, sources=[df.FlowData("x")]))
    return df.FlowGraph([rows], mode=mode)  # type: ignore[list-item]


def outcomes(graph: df.FlowGraph, count: int) -> dict[int, object]:
    """The next results by transaction: the value, or the error."""
    found: dict[int, object] = {}
    for _ in range(count):
        try:
            value, info = graph.fetch(timeout=20, with_info=True)  # type: ignore[misc]
            assert found.setdefault(info.transaction_id, value) is value
        except df.NodeError as error:
            assert error.trans_id is not None and error.trans_id not in found
            found[error.trans_id] = error
    return found


def test_one_item_that_cannot_be_batched_ends_alone(mode: str) -> None:
    """BC-034: a null message and an object between two good ones; the node works on."""
    with apart(row_sums, df.CountBatch(2), mode) as graph:
        for value in (np.ones(3), None, {"a": 1}, np.ones(3), np.zeros(3), np.zeros(3)):
            graph.feed({"x": value})
        found = outcomes(graph, 6)
        assert [found[n] for n in (1, 4, 5, 6)] == [3, 3, 0, 0]
        for number in (2, 3):
            assert isinstance(found[number], df.NodeError) and found[number].error_type == "TensorError"  # type: ignore[attr-defined]


def test_function_that_raises_on_one_item_ends_its_batch_and_the_next_is_fine(mode: str) -> None:
    """BC-034: user code that looks at every item of a batch."""
    @df.pyflow
    def sizes(batch):
        return np.array([10 // int(row[0]) for row in batch])

    with apart(sizes, df.CountBatch(2), mode) as graph:
        for value in (1, 0, 2, 5):
            graph.feed({"x": np.array([value])})
        found = outcomes(graph, 4)
        assert [found[n] for n in (3, 4)] == [5, 2]
        assert all("ZeroDivisionError" in str(found[n]) for n in (1, 2))


@pytest.mark.parametrize(("result", "said"), [
    (np.ones(3), "expected 4 rows.*got 3"), (np.ones(5), "expected 4 rows.*got 5"), (7.0, "a float cannot be taken"),
    (None, "expected 4 rows.*got None"),
])
def test_batch_function_with_a_wrong_number_of_results_ends_all_of_its_batch(result: object, said: str) -> None:
    """BC-036: each of the four ends with the error; the next batch is fine."""
    @df.pyflow
    def wrong(batch):
        return result if batch[0, 0] == 0 else batch.sum(axis=1)

    with apart(wrong, df.CountBatch(4), "inline") as graph:
        for value in (0, 0, 0, 0, 1, 1, 1, 1):
            graph.feed({"x": np.full(2, value)})
        found = outcomes(graph, 8)
        assert [found[n] for n in (5, 6, 7, 8)] == [2, 2, 2, 2]
        for number in (1, 2, 3, 4):
            with pytest.raises(df.NodeError, match=said):
                raise found[number]  # type: ignore[misc]
        assert (graph.counters.delivered, graph.counters.failed) == (4, 4)


def test_item_of_an_odd_shape_ends_alone_and_the_others_are_delivered(mode: str) -> None:
    """BC-037: shapes 3, 3, 5, 3, 3, 3 into batches of 4."""
    with apart(row_sums, df.CountBatch(4, timeout=0.1), mode) as graph:
        for size in (3, 3, 5, 3, 3, 3):
            graph.feed({"x": np.ones(size)})
        found = outcomes(graph, 6)
        assert [found[n] for n in (1, 2, 4, 5, 6)] == [3] * 5
        assert "double[5]" in str(found[3]) and "double[3]" in str(found[3])
        assert (graph.counters.delivered, graph.counters.failed) == (5, 1)


def test_incomplete_batch_leaves_after_its_time_without_further_input(mode: str) -> None:
    """BC-039, BC-040: three of ten, and nothing else comes; the time counts from the first of them."""
    output = batched(shape_of, df.CountBatch(10, timeout=0.2), sources=[df.FlowData("x")])
    with df.FlowGraph([output], mode=mode) as graph:
        for _ in range(2):
            began = time.monotonic()
            for _ in range(3):
                graph.feed({"x": np.zeros(2)})
            assert graph.fetch(timeout=20) == (3, 2)
            assert 0.19 < time.monotonic() - began < 2


def feed_times(graph: df.FlowGraph, times: Sequence[int], last_flags: int = 0) -> None:
    """Feed one item for each start time; the last one with these flags."""
    for time_ in times:
        flags = last_flags if time_ == times[-1] else 0
        graph.feed({"x": np.array([time_])}, info=df.FeedInfo(start_time=time_, end_time=time_ + 1, flow_flags=flags))


@pytest.mark.parametrize("flag", [df.Flag.EOS, df.Flag.SEG])
def test_window_of_time_waits_for_its_span_or_a_flag(mode: str, flag: int) -> None:
    """BC-039: message times 0 to 3 in a window of 5 wait; EOS and SEG send them; a full span needs neither."""
    graph = df.FlowGraph([batched(as_list, df.TimeBatch(5), sources=[df.FlowData("x")])], mode=mode)
    with graph:
        feed_times(graph, [0, 1, 2])
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=0.15)
        feed_times(graph, [3], flag)
        assert graph.fetch(timeout=20) == [[0], [1], [2], [3]]
        feed_times(graph, [10, 11, 12, 13, 14])
        assert graph.fetch(timeout=20) == [[10], [11], [12], [13], [14]]


def test_items_held_by_a_batch_whose_process_dies_are_reported_lost_and_batching_goes_on() -> None:
    """BC-039: the timer is pending when the node is killed."""
    output = batched(shape_of, df.CountBatch(10, timeout=0.3), sources=[df.FlowData("x")])
    with df.FlowGraph([output]) as graph:
        deployment = graph.running.deployment
        assert deployment is not None
        (holder,) = [s for s in deployment.status() if "CountBatch" in s.node]
        for _ in range(3):
            graph.feed({"x": np.zeros(2)})
        wait_until(lambda: all(q.level == 0 for q in deployment.group.stats().queues))
        os.kill(holder.pid, signal.SIGKILL)
        for _ in range(3):
            with pytest.raises(df.InstanceLostError, match="CountBatch"):
                graph.fetch(timeout=20)
        graph.feed({"x": np.zeros(2)})
        assert graph.fetch(timeout=20) == (1, 2)
        assert (graph.counters.fed, graph.counters.failed, graph.counters.delivered) == (4, 3, 1)


def test_full_batches_never_wait_and_are_full_under_load(mode: str) -> None:
    """BC-040: 80 items at full speed into batches of 8 that could wait 10 s."""
    graph = df.FlowGraph([batched(shape_of, df.CountBatch(8, timeout=10), sources=[df.FlowData("x")])], mode=mode)
    with graph:
        began = time.monotonic()
        assert list(graph.map([np.zeros(2)] * 80, in_flight=32, timeout=20)) == [(8, 2)] * 10
        assert time.monotonic() - began < 8


def test_one_batch_object_on_two_inputs_and_two_nodes_gives_four_batchers_of_their_own(mode: str) -> None:
    """BC-041: states and names do not touch each other; the object cannot be changed behind their backs."""
    batch = df.CountBatch(2)
    with pytest.raises(AttributeError):
        batch.batch_size = 3  # type: ignore[misc]

    @df.pyflow
    def pair(left, right):
        return left.tolist(), right.tolist()

    a, b = df.FlowData("a"), df.FlowData("b")
    graph = df.FlowGraph(
        [batched(pair, batch, batch, sources=[a, b]), batched(pair, batch, batch, sources=[b, a])], mode=mode
    )
    with graph:
        results = list(graph.map([(np.array(n), np.array(-n)) for n in range(6)], in_flight=6, timeout=20))
        assert results == [(([n, n + 1], [-n, -n - 1]), ([-n, -n - 1], [n, n + 1])) for n in (0, 2, 4)]
        names = [name for name in graph.running.model.submodels if "CountBatch" in name]
        assert len(set(names)) == 4


def test_dict_of_a_batch_is_taken_apart_by_element(mode: str) -> None:
    """BC-043: and a dict whose entries have different numbers of rows is an error."""
    @df.pyflow
    def named(batch):
        return {"sum": batch.sum(axis=1), "twice": batch * 2 if batch[0, 0] < 8 else batch[:1]}

    with apart(named, df.CountBatch(4), mode) as graph:
        for n in range(12):
            graph.feed({"x": np.array([n, 1])})
        found = outcomes(graph, 12)
        for n in range(8):
            value = found[n + 1]
            assert sorted(value) == ["sum", "twice"] and value["sum"] == n + 1  # type: ignore[call-overload, index]
            assert value["twice"].tolist() == [2 * n, 2]  # type: ignore[index]
        assert all("different numbers of rows" in str(found[n + 1]) for n in range(8, 12))


def test_window_without_an_end_is_bounded() -> None:
    """BC-044: nobody sends SEG; the items beyond the cap end with an error that names node and parameter."""
    node = df.builtin_node("_BuiltIn_TimeBatch", 1, 1, window=-1, max_items=5)
    with df.FlowGraph([node(df.FlowData("x"))], mode="inline") as graph:  # type: ignore[list-item]
        feed_times(graph, range(8))
        for _ in range(3):
            with pytest.raises(df.NodeError, match="TimeBatch"):
                graph.fetch(timeout=20)
        feed_times(graph, [8], df.Flag.SEG)
        assert graph.fetch(timeout=20).ravel().tolist() == [0, 1, 2, 3, 4]  # type: ignore[attr-defined]
        with pytest.raises(df.NodeError, match="max_items"):
            graph.fetch(timeout=20)
        assert graph.running.client.in_flight == 0


@pytest.mark.parametrize("limit", [0.25, timedelta(milliseconds=250)])
def test_every_time_is_seconds_or_a_timedelta(limit: float | timedelta) -> None:
    """BC-045: fetch, feed and call, deadlines, and the batch's own."""
    @df.pyflow
    def hang(x):
        time.sleep(3600)

    def took(action: Callable[[], object], error: type[Exception]) -> float:
        began = time.monotonic()
        with pytest.raises(error):
            action()
        return time.monotonic() - began

    node = hang.fnode()
    with df.FlowGraph([node(df.FlowData("x"))], {"queue_depth": "1", "stop_timeout": "0.2"}) as graph:
        times = [took(lambda: graph(1, timeout=limit), df.WaitTimeoutError)]
        graph.feed({"x": 1})
        times.append(took(lambda: graph.feed({"x": 1}, timeout=limit), df.QueueFullError))
        times.append(took(lambda: graph.fetch(timeout=limit), df.WaitTimeoutError))
        times.append(took(lambda: list(graph.map([1], timeout=limit)), df.QueueFullError))
    with df.FlowGraph([node(df.FlowData("x"))], {"stop_timeout": "0.2"}) as graph:
        times.append(took(lambda: graph(1, deadline=limit), df.DeadlineError))
        graph.feed({"x": 1}, deadline=limit)
        times.append(took(graph.fetch, df.DeadlineError))
        times.append(took(lambda: list(graph.map([1], deadline=limit)), df.DeadlineError))
    batch = batched(shape_of, df.CountBatch(9, timeout=limit), sources=[df.FlowData("x")])
    with df.FlowGraph([batch], mode="inline") as graph:
        began = time.monotonic()
        assert graph(np.zeros(1)) == (1, 1)
        times.append(time.monotonic() - began)
    assert all(0.24 < taken < 2 for taken in times), times


@df.pyflow
def slow_double(x):
    if x[0] < 0:
        time.sleep(0.4)
    return x * 2


class Asks:
    """Calls a graph with a limit of 250 ms, and says what came and how long that took."""

    @df.proc_wrapper("i0,o0")
    def ask(self, context, inputs):
        began = time.monotonic()
        code, _ = context.run_flow_model("slow", inputs, 250)
        return context.set_output(0, np.array([code, time.monotonic() - began]))


def test_only_the_wait_of_upstreams_interface_is_in_milliseconds() -> None:
    """BC-045: run_flow_model, as its name there says; the call of an invoked graph is in seconds."""
    model = df.FlowGraph([slow_double.fnode()(df.FlowData("x"))], name="slow")

    @df.pyflow
    class Calls:
        def __init__(self, model):
            self.model = model

        @df.method()
        def run(self, x):
            began = time.monotonic()
            try:
                self.model(x, timeout=0.25)
            except df.WaitTimeoutError:
                return np.array([564001, time.monotonic() - began])
            return np.array([0, time.monotonic() - began])

    point = df.FuncProcessPoint(py_func=Asks)
    point.add_invoked_closure("slow", model)
    x = df.FlowData("x")
    outputs = [point.fnode(1, 1, "asks")(x), Calls.fnode(model).run(x)]  # type: ignore[attr-defined]
    with df.FlowGraph(outputs) as graph:
        for code, taken in graph(-np.ones(1), timeout=20):  # type: ignore[attr-defined]
            assert code == 564001 and taken > 0.24


@pytest.mark.parametrize("bad", [-1, "1", float("nan"), float("inf"), True])
def test_times_that_cannot_be_are_refused_in_one_way(bad: object) -> None:
    """BC-045."""
    with df.FlowGraph([row_sums.fnode()(df.FlowData("x"))], mode="inline") as graph:
        for use in (
            lambda: graph(1, timeout=bad), lambda: graph.feed({"x": 1}, timeout=bad), lambda: graph.fetch(timeout=bad),
            lambda: next(graph.map([1], timeout=bad)), lambda: df.CountBatch(2, timeout=bad),
            lambda: row_sums.fnode(call_timeout=bad), lambda: graph(1, deadline=bad),
            lambda: graph.feed({"x": 1}, deadline=bad), lambda: next(graph.map([1], deadline=bad)),
        ):
            with pytest.raises(df.OptionError, match="expected .*seconds"):
                use()
        assert graph.counters.fed == 0


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_wall_clock_that_jumps_does_not_matter(step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """BC-046: in the middle of a blocked fetch, an open batch, a join that waits and a deadline."""
    real, jumped = time.time, []

    def clock() -> float:
        jumped.append(1)
        return real() + (step if len(jumped) > 1 else 0)

    a, b = df.FlowData("a"), df.FlowData("b")

    @df.pyflow
    def join(left, right):
        return left + right

    batch = batched(shape_of, df.CountBatch(5, timeout=0.2), sources=[a])
    with df.FlowGraph([join.fnode()(a, b)], mode="inline") as pairs, df.FlowGraph([batch], mode="inline") as batches:
        monkeypatch.setattr(time, "time", clock)
        pairs.feed({"a": 1}, partial=True)
        batches.feed({"a": np.zeros(2)})
        began = time.monotonic()
        assert batches.fetch(timeout=20) == (1, 2)
        assert 0.19 < time.monotonic() - began < 2
        with pytest.raises(df.WaitTimeoutError):
            pairs.fetch(timeout=0.2)
        assert 0.39 < time.monotonic() - began < 5
        pairs.feed({"b": 2}, partial=True)
        assert pairs.fetch(timeout=20) == 3
        began = time.monotonic()
        pairs.feed({"a": 1}, partial=True, deadline=0.2)
        with pytest.raises(df.DeadlineError):
            pairs.fetch(timeout=20)
        assert 0.19 < time.monotonic() - began < 5


def test_padding_is_not_taken_for_data(mode: str) -> None:
    """BC-047: three of four; the valid count travels with the batch, so that three results come out."""
    with apart(row_sums, df.CountBatch(4, timeout=0.1, padding=True), mode, padding=True) as graph:
        for n in range(3):
            graph.feed({"x": np.full(2, n)})
        assert outcomes(graph, 3) == {1: 0, 2: 2, 3: 4}
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=0.15)
        assert (graph.counters.delivered, graph.running.client.in_flight) == (3, 0)
        if mode == "process":
            check_idle(graph)


def test_sliding_windows_end_without_an_empty_or_a_repeated_one() -> None:
    """BC-047: five items, windows of 4 that move by 2."""
    batch = batched(as_list, df.CountBatch(4, slide_stride=2, timeout=0.1, padding=True), sources=[df.FlowData("x")])
    with df.FlowGraph([batch], mode="inline") as graph:
        for n in range(1, 6):
            graph.feed({"x": np.array(n)})
        windows = [graph.fetch(timeout=20) for _ in range(3)]
        assert windows == [[1, 2, 3, 4], [3, 4, 5, 0], [5, 0, 0, 0]]
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=0.3)
        assert len(pids(graph) if graph.running.deployment else []) == 0
