"""A graph held up and started over while it runs: no call begins, nothing queued is lost, nothing old comes after."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import dflow_core as df
from tests.system.case_support import pids, stats, wait_until


@df.pyflow
class Sum:
    """Adds up what it has seen."""

    def __init__(self):
        self.total = 0

    @df.method()
    def add(self, x):
        self.total += int(x)
        return self.total

    def reset_func_state(self):
        self.total = 0


@df.pyflow
def slow(x):
    time.sleep(float(x) / 1000)
    return x


@df.pyflow
def plus(a, b):
    return a + b


@df.pyflow
def left(x):
    return x


@df.pyflow
def right(x):
    return x


def calls(graph: df.FlowGraph) -> list[int]:
    return [node.calls for node in graph.stats().nodes]


def test_a_suspended_graph_keeps_what_is_queued_and_begins_no_call():
    x = df.FlowData("x")
    with df.FlowGraph([slow.fnode()(left.fnode()(x))], {"output": "none"}) as graph:
        fed = [graph.feed({x: np.array(n)}) for n in (300, 0, 0)]
        wait_until(lambda: any(n.current and n.node == "slow" for n in graph.stats().nodes))
        graph.suspend()
        assert all(node.current is None for node in graph.stats().nodes), "the call at hand has been finished"
        before = calls(graph)
        fed += [graph.feed({x: np.array(0)}) for _ in range(4)]
        os.kill(pids(graph)[0], signal.SIGKILL)
        wait_until(lambda: [s.state for s in graph.running.deployment.status()] == ["running", "running"])
        assert graph.fetch() == 300
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=0.2)
        assert calls(graph)[1:] == before[1:], "nothing begins, not even in a process that was started meanwhile"
        graph.resume()
        lost = 0
        for _ in fed[1:]:
            try:
                assert graph.fetch(timeout=20) == 0
            except df.InstanceLostError:
                lost += 1
        assert lost <= 1, "a process that is killed takes no more along than it has in hand"
        # Fifty times, while something runs: nothing is lost, nothing comes twice.
        results, stop = [], threading.Event()

        def keep_busy() -> None:
            results.extend(graph.map(np.array(0) for _ in iter(lambda: stop.is_set(), True)))

        worker = threading.Thread(target=keep_busy)
        worker.start()
        for _ in range(50):
            graph.suspend()
            assert all(node.current is None for node in graph.stats().nodes)
            graph.resume()
        stop.set()
        worker.join(30)
        assert not worker.is_alive() and graph.running.client.in_flight == 0
        with pytest.raises(df.WaitTimeoutError, match="could not be suspended"):
            graph.feed({x: np.array(1500)})
            wait_until(lambda: any(n.current and n.node == "slow" for n in graph.stats().nodes))
            graph.suspend(timeout=0.05)
        assert graph.fetch() == 1500, "it runs on"


def test_recovering_ends_everything_in_flight_and_resets_functions():
    a, b = df.FlowData("a"), df.FlowData("b")
    adder = Sum.fnode()
    total = adder.add(slow.fnode()(plus.fnode()(left.fnode()(a), right.fnode()(b))))
    with df.FlowGraph([total], {"queue_depth": "2"}) as graph:
        assert [graph(1, 1), graph(2, 0)] == [2, 4]
        half = graph.feed({a: np.zeros(1 << 20)}, partial=True)
        fed = [graph.feed({a: np.array(20), b: np.array(20)}) for _ in range(8)]
        feeder = threading.Thread(target=lambda: [graph.feed({a: np.array(20), b: np.array(20)}) for _ in range(8)])
        feeder.start()
        thrown = graph.recover()
        assert thrown >= len(fed) - 2
        feeder.join(30)
        assert not feeder.is_alive()
        cancelled, results = [], []
        for _ in range(17):
            try:
                results.append(graph.fetch(timeout=20))
            except df.CancelledError as error:
                cancelled.append(error.trans_id)
        assert int(half) in cancelled
        assert len(set(cancelled)) == len(cancelled) == thrown
        wait_until(lambda: stats(graph).bytes_in_use < 1 << 20)
        assert graph.running.client.in_flight == 0
        graph.recover()
        assert graph(1, 2) == 3, "the sum began anew"


def test_recovering_an_inline_graph_forgets_what_joins_hold():
    a, b = df.FlowData("a"), df.FlowData("b")
    with df.FlowGraph([plus.fnode()(a, b)], mode="inline") as graph:
        graph.feed({a: np.array(1)}, partial=True)
        assert graph.recover() == 1
        with pytest.raises(df.CancelledError, match="recovered"):
            graph.fetch()
        assert graph(1, 2) == 3


def test_an_inline_graph_that_is_suspended_calls_nothing_and_keeps_what_is_fed():
    @df.pyflow
    def noted(x):
        return x

    with df.FlowGraph([noted.fnode()(df.FlowData("x"))], mode="inline") as graph:
        graph.suspend()
        graph.feed({"x": 1})
        with pytest.raises(df.WaitTimeoutError, match="0 calls"):
            graph.fetch(timeout=0.01)
        graph.resume()
        assert graph.fetch(timeout=5) == 1
        graph.suspend()
        graph.feed({"x": 2})
        assert graph.recover() == 1
        with pytest.raises(df.CancelledError, match="recovered"):
            graph.fetch(timeout=5)
        assert (graph(3), graph.stats().nodes[0].calls) == (3, 2)


def test_recovering_an_inline_graph_begins_functions_with_queues_anew():
    @df.pyflow(stream_input="Queue")
    def pairs(left, right):
        for first in left:
            yield first + right.get()

    a, b = df.FlowData("a"), df.FlowData("b")
    with df.FlowGraph([pairs.fnode()(a, b)], mode="inline") as graph:
        assert graph(1, 2) == 3
        graph.feed({a: np.array(5)}, partial=True)
        assert graph.recover() == 1
        with pytest.raises(df.CancelledError, match="recovered"):
            graph.fetch()
        assert graph(3, 4) == 7, "what the interrupted call had taken is forgotten"
