"""Cases of area B that touch one machine: queues and flow control, through whole graphs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import is_alive, wait_until
from tests.system.case_support import ROOT, chain, check_idle, level, pids, stats


@df.pyflow
def same(x):
    return x


@df.pyflow
def sleep_for_ever(x):
    time.sleep(3600)


@df.pyflow(choice_output=lambda value: value is not None)
def drop_every_seventh(n):
    return None if n % 7 == 0 else n


@df.pyflow
def slow(n):
    time.sleep(0.002)
    return -n


@df.pyflow
def join(a, b):
    return a, b


@pytest.mark.parametrize("instances", [1, 2])
def test_join_ends_every_transaction_although_one_branch_drops_some(instances: int) -> None:
    """BC-020: every seventh is dropped by one branch, the other one is slow; depth 4, fed at full speed."""
    n = df.FlowData("n")
    fast, late = drop_every_seventh.fnode(), slow.fnode(instances=instances)
    with df.FlowGraph([join.fnode()(fast(n), late(n))], {"queue_depth": "4"}) as graph:
        results = list(graph.map(range(300), in_flight=24, timeout=30))
        assert results == [(k, -k) for k in range(300) if k % 7]
        assert (graph.counters.delivered, graph.counters.dropped) == (257, 43)
        with pytest.raises(df.DroppedError):
            graph(14, timeout=20)
        check_idle(graph)


def test_closing_with_every_queue_full_keeps_its_limit() -> None:
    """BC-024: three nodes blocked on full queues behind one that never ends."""
    graph = chain(same, same, sleep_for_ever, options={"queue_depth": "2", "stop_timeout": "0.5"})
    with graph:
        with pytest.raises(df.QueueFullError):
            for n in range(100):
                graph.feed({"x": n}, timeout=0.3)
        running = pids(graph)
        assert level(graph) == 6
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert not any(map(is_alive, running))


TERMINATED = """
import dflow_core as df
from tests.system.case_support import chain, pids
from tests.system.test_cases_b import same, sleep_for_ever
with chain(same, sleep_for_ever, options={"queue_depth": "2", "stop_timeout": "0.5"}) as graph:
    print(*pids(graph), flush=True)
    for n in range(100):
        graph.feed({"x": n})
"""


def test_sigterm_while_feeding_waits_for_room_ends_everything() -> None:
    """BC-024."""
    with subprocess.Popen(
        [sys.executable, "-c", TERMINATED], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as application:
        assert application.stdout is not None
        executors = [int(word) for word in application.stdout.readline().split()]
        assert len(executors) == 2 and all(map(is_alive, executors))
        application.send_signal(signal.SIGTERM)
        assert application.wait(20) != 0
    wait_until(lambda: not any(map(is_alive, executors)))


def keep_latest(consumer: object) -> df.FlowGraph:
    """A source, a queue of one message that keeps the latest, and a consumer."""
    source = same.fnode("source")
    source.set_queue(0, depth=1, overflow="drop_oldest")
    return df.FlowGraph([consumer.fnode("consumer")(source(df.FlowData("x")))])  # type: ignore[attr-defined]


def test_queue_that_keeps_the_latest_hands_on_the_newest_and_has_no_hidden_place(tmp_path: object) -> None:
    """BC-025: while the consumer is busy 50 messages come; it then gets the last one, and none in between."""
    gate = f"{tmp_path}/gate"

    @df.pyflow
    def wait_for_gate(n):
        while n == 0 and not os.path.exists(gate):
            time.sleep(0.005)
        return n

    with keep_latest(wait_for_gate) as graph:
        graph.feed({"x": 0})
        edge = next(q.name for q in stats(graph).queues if q.name.startswith("source"))

        def sent() -> tuple[int, int, int, int]:
            (queue,) = [q for q in stats(graph).queues if q.name == edge]
            return queue.sent, queue.delivered, queue.dropped, queue.level

        wait_until(lambda: sent()[1] == 1)
        for n in range(1, 51):
            graph.feed({"x": n})
        wait_until(lambda: sent()[0] == 51)
        assert sent() == (51, 1, 49, 1)
        open(gate, "w").close()
        assert [graph.fetch(timeout=20) for _ in range(2)] == [0, 50]


def test_every_message_a_lossy_queue_drops_is_counted_and_ends_its_transaction() -> None:
    """BC-026: sent = received + dropped on the edge, and fed = delivered + dropped for the caller."""
    with keep_latest(slow) as graph:
        for n in range(100):
            graph.feed({"x": n})
        results = [graph.fetch(timeout=20)]
        (edge,) = [q for q in stats(graph).queues if q.name.startswith("source")]
        wait_until(lambda: edge.sent == edge.delivered + edge.dropped + edge.level)
        while graph.running.client.in_flight:
            results.append(graph.fetch(timeout=1))
        assert graph.counters.delivered + graph.counters.dropped == 100
        check_idle(graph)


def test_burst_of_small_messages_is_lossless_by_default() -> None:
    """BC-028: a generator yields 5000 small dicts as fast as it can, twice with a pause; all come, in order."""
    @df.pyflow
    def burst(count):
        for n in range(count):
            yield {"n": n}

    with chain(burst, same) as graph:
        for _ in range(2):
            results = graph(5000, timeout=60)
            assert [item["n"] for item in results] == list(range(5000))  # type: ignore[attr-defined]
            threading.Event().wait(0.1)  # the pause the case asks for
        check_idle(graph)


def test_lossless_is_what_every_queue_of_a_graph_is_unless_asked_otherwise() -> None:
    """BC-026, BC-028."""
    with chain(same, slow, options={"queue_depth": "1"}) as graph:
        assert list(graph.map(range(100), in_flight=20, timeout=30)) == [-n for n in range(100)]
        assert all(queue.dropped == 0 for queue in stats(graph).queues)
        np.testing.assert_array_equal([q.sent for q in stats(graph).queues], 100)
