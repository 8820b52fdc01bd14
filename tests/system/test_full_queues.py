"""What full queues do, through whole graphs between processes and in one: nothing vanishes, whoever dies."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import dflow_core as df
from dflow_core.testing.waiting import wait_until
from tests.system.case_support import check_idle, pids

POLICIES = {
    "block": {}, "drop_oldest": {}, "drop_newest": {}, "keep_latest": {}, "max_age": {"max_age": 0.01},
}
LOSSY = [policy for policy in POLICIES if policy != "block"]


@df.pyflow(restarts=1_000_000)
def same(x):
    return x


@df.pyflow(restarts=1_000_000)
def slow(x):
    time.sleep(0.003)
    return x


@df.pyflow(restarts=1_000_000)
def pair(a, b):
    return a, b


@df.pyflow
def spread(x):
    for k in range(5):
        yield x * 10 + k


@df.pyflow(gather=True)
def collect(parts):
    return list(parts)


def check_edges(graph: df.FlowGraph) -> None:
    """Idle, and each edge has sent what was delivered, dropped or failed on it."""
    check_idle(graph)
    for edge in graph.stats().edges:
        assert edge.level == 0 and edge.sent == edge.delivered + edge.dropped + edge.failed, edge


def lossy(node: object, policy: str, depth: int = 2) -> object:
    node.set_queue(0, depth=depth, overflow=policy, **POLICIES[policy])  # type: ignore[attr-defined]
    return node


@pytest.mark.parametrize("mode", ["process", "inline"])
@pytest.mark.parametrize("policy", POLICIES)
def test_each_transaction_ends_once_with_its_result_or_as_dropped(policy: str, mode: str) -> None:
    """BC-026: sent = delivered + dropped on the edge, fed = delivered + dropped for the caller."""
    source = lossy(same.fnode("source"), policy)
    with df.FlowGraph([slow.fnode("sink")(source(df.FlowData("x")))], mode=mode) as graph:  # type: ignore[operator]
        results = list(graph.map(range(200), in_flight=40, timeout=20))
        assert results == sorted(set(results))  # type: ignore[type-var]
        counters = graph.counters
        assert (counters.fed, counters.delivered, counters.failed) == (200, len(results), 0)
        assert counters.dropped == 200 - len(results)
        edge = next(e for e in graph.stats().edges if e.name == "source:0->sink:0")
        assert (edge.sent, edge.dropped) == (200, counters.dropped)
        assert graph.stats().status == (
            f"incomplete: lost source:0->sink:0: {edge.dropped} dropped of 200 messages" if edge.dropped else "complete"
        )
        if policy in ("drop_oldest", "keep_latest"):
            assert results[-1] == 199
        if policy == "block" or mode == "inline":
            assert len(results) == 200
        if mode == "process":
            check_edges(graph)


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("policy", LOSSY)
def test_join_behind_a_lossy_branch_holds_nothing_back(policy: str, instances: int) -> None:
    """What one branch dropped leaves nothing of the other one in the join, whichever instance waits for it."""
    n = df.FlowData("n")
    first = lossy(same.fnode("first"), policy, 1)
    join = pair.fnode("join").set_options(instances=instances)
    late = slow.fnode("late")
    with df.FlowGraph([join(late(first(n)), same.fnode("whole")(n))]) as graph:  # type: ignore[operator]
        results = list(graph.map(range(200), in_flight=30, timeout=20))
        assert results and all(a == b for a, b in results)  # type: ignore[attr-defined]
        assert graph.counters.delivered + graph.counters.dropped == 200
        check_edges(graph)


@pytest.mark.parametrize("policy", LOSSY)
def test_parts_that_are_dropped_do_not_keep_the_others_from_being_gathered(policy: str) -> None:
    parts = lossy(spread.fnode("parts"), policy)
    with df.FlowGraph([collect.fnode("whole")(slow.fnode()(parts(df.FlowData("x"))))]) as graph:  # type: ignore[operator]
        results = list(graph.map(range(40), in_flight=10, timeout=20))
        for whole in results:
            assert whole == sorted(whole) and len({part // 10 for part in whole}) <= 1  # type: ignore[attr-defined]
        assert graph.counters.delivered + graph.counters.dropped == 40
        check_edges(graph)


@pytest.mark.parametrize("policy", LOSSY)
def test_queues_between_caller_and_graph_drop_as_others_do(policy: str) -> None:
    """The caller's own edges: what it feeds displaces, and results it does not fetch give way."""
    x = df.FlowData("x").set_queue(depth=1, overflow=policy, **POLICIES[policy])
    last = lossy(slow.fnode("last"), policy, 1)
    with df.FlowGraph([last(x)]) as graph:  # type: ignore[operator]
        for n in range(60):
            graph.feed({"x": n}, timeout=10)
        results = []
        while graph.running.client.in_flight:
            with contextlib.suppress(df.WaitTimeoutError):
                results.append(graph.fetch(timeout=0.05))
        assert results == sorted(set(results))  # type: ignore[type-var]
        assert graph.counters.delivered >= len(results) and graph.counters.fed == 60
        check_edges(graph)
        if policy != "max_age":  # whether one grows too old is the machine's business
            assert any(edge.dropped for edge in graph.stats().edges)


@pytest.mark.parametrize(("policy", "kept"), [("drop_oldest", [8, 9]), ("drop_newest", [0, 1]), ("keep_latest", [9])])
def test_results_nobody_fetches_give_way_and_hold_nobody_up(policy: str, kept: list[int]) -> None:
    """BC-019: dropped by policy where the graph says so."""
    with df.FlowGraph([lossy(same.fnode("last"), policy)(df.FlowData("x"))]) as graph:  # type: ignore[operator]
        for n in range(10):
            graph.feed({"x": n}, timeout=10)
        wait_until(lambda: next(e.sent for e in graph.stats().edges if "fetch" in e.name) == 10)
        assert [graph.fetch(timeout=20) for _ in kept] == kept
        with pytest.raises(df.WaitTimeoutError):
            graph.fetch(timeout=0.2)
        assert (graph.counters.delivered, graph.counters.dropped) == (len(kept), 10 - len(kept))
        check_edges(graph)


def test_error_says_which_queue_dropped_the_message(tmp_path: object) -> None:
    gate = f"{tmp_path}/gate"

    @df.pyflow
    def wait_for_gate(n):
        while not os.path.exists(gate):
            time.sleep(0.005)
        return n

    source = lossy(same.fnode("source"), "drop_newest", 1)
    with df.FlowGraph([wait_for_gate.fnode("sink")(source(df.FlowData("x")))]) as graph:  # type: ignore[operator]
        graph.feed({"x": 0})
        sink = "source:0->sink:0"
        wait_until(lambda: next(e.delivered for e in graph.stats().edges if e.name == sink) == 1)
        graph.feed({"x": 1})
        failed: list[df.DroppedError] = []

        def call() -> None:
            try:
                graph(2, timeout=20)
            except df.DroppedError as error:
                failed.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        wait_until(lambda: next(e.dropped for e in graph.stats().edges if e.name == sink) == 1)
        open(gate, "w").close()
        caller.join(20)
        assert "queue 'source:0->sink:0' dropped" in str(failed[0]) and "set_queue" in str(failed[0].hint)
        assert [graph.fetch(timeout=20) for _ in range(2)] == [0, 1]


def kill_rounds(rounds: int, seed: int) -> None:
    """Kill nodes around lossy queues while messages are dropped; every transaction ends, every edge adds up."""
    draw = random.Random(seed)
    n = df.FlowData("n")
    first, second = lossy(same.fnode("first"), "drop_oldest"), lossy(slow.fnode("second"), "keep_latest")
    join = pair.fnode("join")
    with df.FlowGraph([join(second(first(n)), same.fnode("whole")(n))], {"output": "none"}) as graph:  # type: ignore[operator]
        for _ in range(rounds):
            before = graph.counters.fed
            ended = []
            for item in graph.map(range(60), in_flight=20, errors="return", timeout=30):
                ended.append(item)
                if draw.random() < 0.1:
                    victims = pids(graph)
                    os.kill(draw.choice(victims), signal.SIGKILL) if victims else None
            assert graph.counters.fed == before + 60
            counters = graph.counters
            assert counters.fed == counters.delivered + counters.failed + counters.dropped
            wait_until(lambda: all(node.state == "running" for node in graph.stats().nodes))
            check_edges(graph)


def test_kills_around_lossy_queues_leave_no_transaction_open() -> None:
    """BC-026: also whoever dies holding what it has displaced."""
    kill_rounds(6, 20261130)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_around_lossy_queues_long_form() -> None:
    """BC-026."""
    kill_rounds(200, 7)


def test_counters_of_nodes_go_on_over_restarts_and_say_what_they_wait_for() -> None:
    """Read from outside while it runs: calls, errors, busy, blocked and waiting time."""

    @df.pyflow(restarts=3)
    def sometimes(x):
        if x == 3:
            raise ValueError("three")
        return x

    with df.FlowGraph([slow.fnode("sink")(sometimes.fnode("node")(df.FlowData("x")))], {"queue_depth": "1"}) as graph:
        list(graph.map(range(30), errors="return", timeout=20))
        wait_until(lambda: next(node.calls for node in graph.stats().nodes if node.node == "node") == 30)
        node, sink = graph.stats().nodes if graph.stats().nodes[0].node == "node" else graph.stats().nodes[::-1]
        assert (node.failed, sink.calls, sink.failed) == (1, 29, 0)
        assert node.blocked > 0 and sink.busy > 29 * 0.003 and sink.waiting >= 0
        os.kill(node.pid, signal.SIGKILL)
        list(graph.map(range(4, 8), errors="return", timeout=20))
        wait_until(lambda: next(n for n in graph.stats().nodes if n.node == "node").calls >= 34)
        edge = next(e for e in graph.stats().edges if e.name == "node:0->sink:0")
        assert edge.blocked > 0
        np.testing.assert_array_less(0.0, [e.waiting for e in graph.stats().edges if e.name.startswith("node")])
