"""Functions that call graphs while they work, inline and as processes (runtime-semantics.md section 18)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import MetaRunContext

LIMIT = 30.0


@df.pyflow
def work(x):
    """Doubles, or does what negative numbers say."""
    import os
    import time

    first = float(x.ravel()[0])
    if first == -1:
        raise ValueError("no negative numbers")
    if first == -2:
        os._exit(7)
    if first == -3:
        time.sleep(0.5)
    return x * 2


@df.pyflow(choice_output=lambda x: x is not None)
def only_large(x):
    return x if x.ravel()[0] > 10 else None


@df.pyflow
def parts(x):
    yield from x


def called_graph() -> df.FlowGraph:
    """Two outputs: twice the input, and that again if it is large."""
    doubled = work.fnode()(df.FlowData("x"))
    return df.FlowGraph([doubled, only_large.fnode()(doubled)], name="called")


class Steps:
    """A hand-written class: gives code and first value of each output."""

    @df.proc_wrapper("i0,o0")
    def go(self, run_context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        key, count, timeout = "called", 1, 30000
        array = inputs[0].get_tensor()
        if array is not None and array.dtype == np.int64:  # a wrong call
            key, count = (("nobody", 1), ("called", 2))[int(array[0])]
        if array is not None and array[0] == -3:
            timeout = 50
        code, results = run_context.run_flow_model(key, [inputs[0]] * count, timeout)
        tensors = [msg.get_tensor() for msg in results]
        values = [-99.0 if tensor is None else float(tensor[0]) for tensor in tensors]
        return run_context.set_output(0, np.array([code, *values]))


@df.pyflow
class Values:
    """Calls by value; every result says where it was made."""

    def __init__(self, called, split) -> None:
        self.called, self.split = called, split

    @df.method
    def one(self, x):
        import os

        before = self.called.start(x + 1)
        first, second = self.called(x)
        return first, second, before.result()[0], os.getpid()

    @df.method
    def several(self, x):
        return [np.asarray(part).item() for part in self.split.start(x).results()]


def graph(mode: str, instances: int = 1) -> df.FlowGraph:
    x, y = df.FlowData("x"), df.FlowData("y")
    point = df.FuncProcessPoint(py_func=Steps)
    point.add_invoked_closure("called", called_graph())
    values = Values.fnode(called_graph(), split=df.FlowGraph([parts.fnode()(df.FlowData("x"))], name="split"))
    values.set_options(instances=instances)
    outputs = [point.fnode(1, 1, "steps")(x), values.one(y), values.several(y)]
    return df.FlowGraph(outputs, {"stop_timeout": "5"}, name="calls", mode=mode)


@pytest.fixture(scope="module", params=["inline", "process"])
def calls(request: pytest.FixtureRequest) -> Iterator[df.FlowGraph]:
    with graph(request.param) as running:
        yield running


def low_level(calls: df.FlowGraph, x: Sequence[float] | np.ndarray) -> list[float]:
    result = calls(np.asarray(x), np.array([1.0]), timeout=LIMIT)
    assert isinstance(result, tuple)
    values: list[float] = result[0].tolist()
    return values


@pytest.mark.parametrize(
    ("fed", "expected"),
    [
        ([20.0], [0, 40, 40]),  # every output answers
        ([1.0], [0, 2, -99]),  # a branch not taken is a null message
        ([-1.0], [564000]),  # a node in there fails
        (np.array([0]), [164000]),  # a key nobody knows
        (np.array([1]), [164000]),  # another number of inputs
        ([2.0], [0, 4, -99]),  # and what came before is not in the way
    ],
)
def test_run_flow_model_gives_a_code_and_a_message_for_each_output(calls, fed, expected):
    assert low_level(calls, fed) == expected


def test_a_call_that_takes_too_long_ends_with_its_code_and_its_answer_is_let_go(calls):
    code, *values = low_level(calls, [-3.0])
    # Inline, the caller's own thread does the work, so there is nothing to wait for.
    assert (code, values) == ((564001, []) if calls.mode == "process" else (0, [-6, -99]))
    assert low_level(calls, [2.0]) == [0, 4, -99]


def test_values_go_in_and_come_back_and_calls_overlap(calls):
    _, (first, second, third, _), several = calls(np.array([5.0]), np.array([6.0, 7.0]), timeout=LIMIT)
    assert (first.tolist(), second.tolist(), third.tolist()) == ([12, 14], [12, 14], [14, 16])
    assert several == [6, 7]


def test_what_fails_in_there_reaches_the_caller_with_its_cause(calls):
    with pytest.raises(df.NodeError, match="node 'Values/called/work'#0.*no negative numbers") as caught:
        calls(np.array([1.0]), np.array([-1.0]), timeout=LIMIT)
    assert caught.value.node == "Values"
    assert "raise ValueError" in str(caught.value)
    assert calls(np.array([1.0]), np.array([1.0]), timeout=LIMIT)[2] == [1]


def test_what_is_called_is_seen_by_status_and_by_the_plan(calls):
    low_level(calls, [1.0])
    assert {"steps/called/work", "Values/called/work", "Values/split/parts"} < {n.node for n in calls.stats().nodes}
    assert "calls called, split" in str(calls)
    assert "subgraph" in calls.to_mermaid()


def test_each_instance_has_its_own_and_a_dead_one_ends_that_call_only():
    with graph("process", instances=2) as running:
        items = [{"x": np.array([1.0]), "y": np.array([float(n)])} for n in range(40)]
        results = list(running.map(items, timeout=LIMIT))
        assert [float(one[0][0]) for _, one, _ in results] == [2.0 * n for n in range(40)]
        assert len({one[3] for _, one, _ in results}) == 2, "both instances worked"
        with pytest.raises(df.NodeError, match="executor died.*exit"):
            running(np.array([1.0]), np.array([-2.0]), timeout=LIMIT)
        assert low_level(running, [-2.0])[0] == 564000
        assert low_level(running, [2.0]) == [0, 4, -99]
        list(running.map(items, timeout=LIMIT))
        pids = [status.pid for status in running.running.deployment.status()]
    assert not [pid for pid in pids if pid and Path(f"/proc/{pid}").exists()]


def test_closing_ends_a_call_that_waits():
    x = df.FlowData("x")

    @df.pyflow
    class Waits:
        def __init__(self, called) -> None:
            self.called = called

        @df.method
        def go(self, x):
            return self.called(x)

    @df.pyflow
    def forever(x):
        import threading

        threading.Event().wait(3600)

    inner = df.FlowGraph([forever.fnode()(df.FlowData("y"))], name="inner")
    with df.FlowGraph([Waits.fnode(inner).go(x)], {"stop_timeout": "1"}) as running:
        running.feed({"x": 1})
        begun = threading.Event()
        for _ in range(1000):
            if any(s.node == "Waits" and s.current for s in running.running.deployment.status()):
                break
            begun.wait(0.01)
        pids = [status.pid for status in running.running.deployment.status()]
    assert not [pid for pid in pids if pid and os.path.exists(f"/proc/{pid}")]


def test_outside_a_call_nothing_can_be_called():
    with pytest.raises(df.UsageError, match="only while a function works"):
        df.InvokedGraph("k")(1)


def test_a_function_calls_a_graph_by_its_key():
    detect = df.InvokedGraph("detect")

    @df.pyflow
    def look(x):
        return detect(x, timeout=30.0)

    node = look.fnode()
    node.point.add_invoked_closure("detect", df.FlowGraph([work.fnode()(df.FlowData("x"))], name="inner"))
    with df.FlowGraph([node(df.FlowData("x"))], mode="inline") as running:
        assert running(np.array([4.0])).tolist() == [8]
