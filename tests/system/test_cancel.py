"""Cancelling and deadlines through real processes: one end, blocks freed, functions told, nothing left."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import wait_until
from tests.system.case_support import pids, stats

MIB = 1 << 20


@df.pyflow
def sleepy(x):
    """Sleeps as many milliseconds as its input says, and looks whether anybody still waits."""
    mine = df.current_transaction()
    end = time.monotonic() + float(np.asarray(x).flat[0]) / 1000
    while time.monotonic() < end:
        if mine.cancelled:
            with open(os.environ["DFLOW_TEST_TOLD"], "a", encoding="utf-8") as told:
                told.write(f"{mine.id}\n")
            mine.raise_if_cancelled()
        time.sleep(0.001)
    return x


@df.pyflow
def plus(a, b):
    return a + b


@df.pyflow
def same(x):
    return x


@df.pyflow
def same_too(x):
    return x


@df.pyflow
def unchanged(batch):
    return batch


def in_use(graph: df.FlowGraph) -> int:
    gc.collect()
    return stats(graph).bytes_in_use


def holders(graph: df.FlowGraph) -> list[str]:
    return [holder.label for holder in stats(graph).holders]


def test_cancel_and_deadline_end_calls_free_blocks_and_leave_the_graph_as_it_was(tmp_path, monkeypatch):
    told = tmp_path / "told"
    told.touch()
    monkeypatch.setenv("DFLOW_TEST_TOLD", str(told))
    x = df.FlowData("x")
    with df.FlowGraph([same.fnode()(sleepy.fnode()(x))]) as graph:
        assert graph(np.array([1.0])) == 1.0
        # A running function is told, and what waits behind it is not even begun.
        running = graph.feed({x: np.array([60_000.0])})
        waiting = [graph.feed({x: np.full(MIB // 8, 60_000.0)}) for _ in range(8)]
        wait_until(lambda: any(node.current for node in graph.stats().nodes))
        began = time.monotonic()
        assert all(transaction.cancel() for transaction in waiting)
        assert running.cancel() is True and running.cancel() is False and not running.in_flight
        for transaction in (*waiting, running):
            with pytest.raises(df.CancelledError) as caught:
                graph.fetch()
            assert caught.value.trans_id == transaction
        assert graph(np.array([2.0])) == 2.0, "the node is free at once"
        assert time.monotonic() - began < 20
        assert told.read_text().split() == [str(int(running))]
        wait_until(lambda: in_use(graph) == 0)
        # A deadline does the same by itself, and says where the transaction was.
        with pytest.raises(df.DeadlineError, match="worked on it") as late:
            graph(np.array([60_000.0]), deadline=0.3)
        assert late.value.node == "sleepy"
        # Each item of a stream has its own deadline.
        items = [np.array([n]) for n in (0.0, 60_000.0, 0.0)]
        kinds = [type(r) for r in graph.map(items, deadline=1.0, in_flight=1, errors="return")]
        assert kinds == [np.ndarray, df.DeadlineError, np.ndarray]

        async def abandoned() -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(graph.acall(np.array([60_000.0])), 0.3)

        asyncio.run(abandoned())
        assert graph(np.array([3.0])) == 3.0, "a task that is cancelled takes its transaction along"
        counters = graph.counters
        assert (counters.fed, counters.cancelled, graph.running.client.in_flight) == (17, 12, 0)
        wait_until(lambda: in_use(graph) == 0)


def test_a_cancelled_transaction_leaves_the_join_and_the_batch_that_hold_it():
    a, b = df.FlowData("a"), df.FlowData("b")
    joined = plus.fnode()(same.fnode()(a), same_too.fnode()(b))
    point = df.FuncProcessPoint(py_func=unchanged)
    batched = df.FlowNode(1, 1, name="batched")
    batched.add_process_point(point)
    batched.map_input(0, point, 0, [df.CountBatch(batch_size=2)])
    with df.FlowGraph([batched(joined)]) as graph:
        half = graph.feed({a: np.ones(MIB)}, partial=True)
        whole = graph.feed({a: np.zeros(4), b: np.zeros(4)})
        batch = "batched__BuiltIn_CountBatch_0"
        wait_until(lambda: 8 * MIB <= in_use(graph) < 9 * MIB and batch in holders(graph))
        assert half.cancel()
        wait_until(lambda: in_use(graph) < MIB)
        assert whole.cancel()
        wait_until(lambda: batch not in holders(graph))
        for _ in range(2):
            with pytest.raises(df.CancelledError):
                graph.fetch()
        results = list(graph.map([(np.full(4, n), np.zeros(4)) for n in (1.0, 2.0)]))
        assert [r.tolist() for r in results] == [[[1.0] * 4, [2.0] * 4]], "the batch is made of what is wanted"


def test_aborting_at_any_moment_loses_no_slot():
    """BC-054, BC-055: feed and abort after a random 0 to 3 ms, 300 times; then a request is served at once."""
    dice, x = random.Random(5), df.FlowData("x")
    with df.FlowGraph([same_too.fnode()(same.fnode()(x))], {"queue_depth": "2"}) as graph:
        graph(np.zeros(4))
        pause = threading.Event()
        for _ in range(300):
            transaction = graph.feed({x: np.zeros(1000)})
            pause.wait(dice.random() * 0.003)
            if transaction.cancel():
                with pytest.raises(df.CancelledError):
                    graph.fetch()
            else:
                graph.fetch()
        assert graph(np.ones(1), timeout=20) == 1.0
        assert graph.running.client.in_flight == 0
        counters = graph.counters
        assert counters.fed == counters.delivered + counters.cancelled == 302
        wait_until(lambda: in_use(graph) == 0 and not any(edge.level for edge in graph.stats().edges))


def test_cancelling_while_executors_die_and_the_graph_closes_ends_each_transaction_once():
    x = df.FlowData("x")
    graph = df.FlowGraph([same.fnode(restarts=100)(x)], {"output": "none"})
    graph.start()
    dice, ends = random.Random(3), []
    for round_number in range(20):
        fed = [graph.feed({x: np.zeros(100)}) for _ in range(5)]
        if round_number % 3 == 0:
            wait_until(lambda: bool(pids(graph)))  # the last one may not have its successor yet
            os.kill(pids(graph)[0], signal.SIGKILL)
        for transaction in dice.sample(fed, 3):
            transaction.cancel()
        for _ in fed:
            try:
                graph.fetch(timeout=30)
            except (df.CancelledError, df.InstanceLostError) as error:
                ends.append(type(error))
            else:
                ends.append(int)
    fed = [graph.feed({x: np.zeros(100)}) for _ in range(3)]
    closer = threading.Thread(target=graph.close)
    closer.start()
    for transaction in fed:
        transaction.cancel()
    closer.join(30)
    assert not closer.is_alive() and len(ends) == 100
