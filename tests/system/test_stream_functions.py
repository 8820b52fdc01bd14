"""Functions that take messages from queues, inline and as processes (runtime-semantics.md 11, python-api.md 12.4)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dflow_core as df
from dflow_core.message import FlowMsg
from dflow_core.udf import MessageQueue, MetaRunContext

LIMIT = 30.0


@df.pyflow(stream_input="Queue")
def count(numbers):
    """A loop on `get` with a state of its own; fails at -1."""
    seen = 0
    while True:
        number = numbers.get()
        if number == -1:
            raise ValueError("no negative numbers")
        seen += 1
        yield int(number) * 100 + seen


@df.pyflow(stream_input="Queue", choice_output=lambda number: number % 2 == 0)
def even(numbers):
    """A filter: the odd ones end without a result."""
    for number in numbers:
        yield int(number)


@df.pyflow(stream_input="Queue")
def add(left, right):
    """A join, called once for each pair."""
    return int(left.get()) + int(right.get())


@df.pyflow(stream_input="Queue")
def groups(numbers):
    """Takes what comes in time, at most three."""
    found = [int(numbers.get())]
    while len(found) < 3:
        try:
            found.append(int(numbers.get(timeout=0.02)))
        except queue.Empty:
            break
    return found


@df.pyflow
class Gain:
    """One object: a function with queues sets what a plain one uses."""

    def __init__(self) -> None:
        self.gain = 1
        self.changed = threading.Event()

    @df.method(stream_input="Queue")
    def control(self, gains):
        for gain in gains:
            self.gain = int(gain)
            self.changed.set()
            yield self.gain

    @df.method
    def scale(self, number):
        assert self.changed.wait(30)
        return int(number) * self.gain


class Router:
    """A hand-written class: answers out of order."""

    @df.proc_wrapper("i0,o0,stream_input")
    def reverse(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        taken: list[FlowMsg] = []
        while len(taken) < 3:
            code, msg = queues[0].dequeue(20000)
            if msg is None:
                return code
            taken.append(msg)
        for msg in reversed(taken):
            context.set_output(0, msg)
        return 0


class Shared:
    """Two functions with one output: whichever has something to say for a transaction says it."""

    @df.proc_wrapper("i0,o0")
    def large(self, context: MetaRunContext, inputs: list[FlowMsg]) -> int:
        tensor = inputs[0].get_tensor()
        assert tensor is not None
        return context.set_output(0, inputs[0]) if tensor[0] > 10 else 0

    @df.proc_wrapper("i1,o0,stream_input")
    def negative(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        code, msg = queues[0].dequeue()
        if msg is None:
            return code
        tensor = msg.get_tensor()
        assert tensor is not None
        if tensor[0] < 0:
            return context.set_output(0, msg)
        return 0


class Listener:
    """A hand-written class: says what its queue says."""

    @df.proc_wrapper("i0,o0,stream_input")
    def times(self, context: MetaRunContext, queues: list[MessageQueue]) -> int:
        code, msg = queues[0].dequeue()
        if msg is None:
            return code
        codes = [queues[0].dequeue(0)[0], queues[0].dequeue(10)[0]]
        out = context.alloc_tensor_msg([4], np.int64)
        tensor = out.get_tensor()
        assert tensor is not None
        tensor[...] = [*codes, queues[0].depth(), queues[0].size()]
        out.set_transaction_id(msg.get_transaction_id())
        return context.set_output(0, out)


@pytest.fixture(scope="module", params=["inline", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[df.FlowGraph]:
    a, b, c, d = (df.FlowData(name) for name in "abcd")
    gain = Gain.fnode()
    outputs = [count.fnode()(a), even.fnode()(a), add.fnode()(a, b), gain.control(c), gain.scale(d)]
    with df.FlowGraph(outputs, {"stop_timeout": "5"}, mode=request.param) as graph:
        yield graph


def test_loops_filters_joins_and_shared_objects_give_each_transaction_its_own_result(running):
    items = [{"a": n, "b": n * 10, "c": 3, "d": n} for n in range(1, 7)]
    results = list(running.map(items, timeout=LIMIT))
    assert [one[0] for one in results] == [n * 100 + n for n in range(1, 7)]
    assert [one[1] for one in results] == [None, 2, None, 4, None, 6]
    assert [one[2] for one in results] == [n * 11 for n in range(1, 7)]
    assert [one[4] for one in results] == [n * 3 for n in range(1, 7)]


def test_a_failing_function_ends_what_it_had_taken_and_is_called_again(running):
    with pytest.raises(df.NodeError, match="no negative numbers") as caught:
        running(-1, 1, 1, 1, timeout=LIMIT)
    assert caught.value.node == "count"
    assert running(7, 1, 1, 1, timeout=LIMIT)[0] == 701


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_what_comes_in_time_is_taken_together(mode):
    with df.FlowGraph([groups.fnode()(df.FlowData("x"))], mode=mode) as graph:
        results = list(graph.map(range(7), timeout=LIMIT))
    assert sorted(number for found in results for number in found) == list(range(7))
    assert all(len(found) <= 3 for found in results)


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_hand_written_functions_answer_in_any_order_and_hear_what_their_queues_say(mode):
    x, y = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([df.FuncProcessPoint(py_func=Router).fnode(1, 1, "router")(x)], mode=mode) as graph:
        results = list(graph.map([np.array([n]) for n in range(6)], in_flight=3, timeout=LIMIT))
    assert [int(one[0]) for one in results] == list(range(6))
    with df.FlowGraph([df.FuncProcessPoint(py_func=Listener).fnode(1, 1, "listener")(y)], mode=mode) as graph:
        depth = int(graph.running.model.options["queue_depth"])
        assert graph(np.array([1]), timeout=LIMIT).tolist() == [564001, 564001, depth, 0]


@pytest.mark.parametrize("mode", ["inline", "process"])
def test_functions_that_share_an_output_answer_each_transaction_once(mode):
    x = df.FlowData("x")
    with df.FlowGraph([df.FuncProcessPoint(py_func=Shared).fnode(2, 1, "shared")(x, x)], mode=mode) as graph:
        found = [graph(np.array([n]), timeout=LIMIT).tolist() for n in (11, -1, 12, -2)]
    assert found == [[11], [-1], [12], [-2]]


def test_closing_ends_a_loop_on_get_at_once_and_in_good_order(tmp_path):
    """BC-064: `get` raises what ends the loop, also in one that swallows errors of all kinds but heeds this one."""

    folder = str(tmp_path)

    def loop(numbers):
        from pathlib import Path as Place

        import dflow_core as inner

        while True:
            try:
                numbers.get()
            except inner.AbortError:
                Place(folder, "ended").write_text("in good order")
                raise
            except BaseException:
                continue

    node = df.pyflow(stream_input="Queue")(loop).fnode()
    with df.FlowGraph([node(df.FlowData("x"))]) as graph:
        graph.feed({"x": 1})
        pids = [status.pid for status in graph.running.deployment.status()]
    assert (tmp_path / "ended").read_text() == "in good order"
    assert not [pid for pid in pids if pid and Path(f"/proc/{pid}").exists()]


def test_a_function_that_ends_with_one_input_lets_the_others_pass():
    x, y = df.FlowData("x"), df.FlowData("y")
    with df.FlowGraph([add.fnode()(x, y)]) as graph:
        assert graph(1, 2, timeout=LIMIT) == 3
        graph.feed({"x": 1}, partial=True)
        pids = [status.pid for status in graph.running.deployment.status()]
    assert not [pid for pid in pids if pid and Path(f"/proc/{pid}").exists()]


def test_a_function_with_queues_that_dies_loses_what_it_had_not_answered_and_no_more():
    @df.pyflow(stream_input="Queue")
    def dies(numbers):
        import os

        for number in numbers:
            if number == 3:
                os._exit(9)
            yield number

    with df.FlowGraph([dies.fnode(restarts=3)(df.FlowData("x"))]) as graph:
        outcomes = []
        for number in range(6):
            try:
                outcomes.append(graph(number, timeout=LIMIT))
            except df.InstanceLostError:
                outcomes.append("lost")
    assert outcomes == [0, 1, 2, "lost", 4, 5]


def test_a_queue_is_a_queue_that_can_only_be_taken_from():
    seen = {}

    @df.pyflow(stream_input="Queue")
    def look(numbers):
        assert isinstance(numbers, queue.Queue)
        first = numbers.get_nowait()
        seen.update(size=numbers.qsize(), empty=numbers.empty(), full=numbers.full(), depth=numbers.maxsize)
        for call in (lambda: numbers.put(1), lambda: numbers.put_nowait(1), numbers.join, numbers.task_done):
            with pytest.raises(NotImplementedError):
                call()
        with pytest.raises(ValueError, match="negative"):
            numbers.get(timeout=-1)
        with pytest.raises(queue.Empty):
            numbers.get(block=False, timeout=-1)
        return first

    from dflow_core.udf import FlowMsgQueue

    class Source:
        depth = 2
        given = 1

        def get(self, timeout=None):
            self.given -= 1
            return FlowMsg() if self.given == 0 else None

        def level(self):
            return max(0, self.given)

    assert look(FlowMsgQueue(Source())) is None
    assert seen == {"size": 0, "empty": True, "full": False, "depth": 2}


def test_a_suspended_graph_interrupts_a_wait_and_goes_on_with_what_is_queued():
    with df.FlowGraph([count.fnode()(df.FlowData("x"))]) as graph:
        assert graph(1, timeout=LIMIT) == 101
        graph.suspend()
        graph.feed({"x": 2})
        graph.resume()
        assert graph.fetch(timeout=LIMIT) == 201  # called again: what it had counted is gone with its call
