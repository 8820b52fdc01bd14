"""When a graph counts as stalled, what the report says, and that nothing watches an idle graph."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace

import pytest

from dflow_core.executor import Counters, GraphStats, NodeStats, StallMonitor
from dflow_core.executor.caller.stall import Stall, StallWatch, concerned, report
from dflow_core.spi import QueueStats

READERS = {"g:x->a:0": "a", "a:0->b:0": "b"}
IN, MID, OUT = "g:x->a:0", "a:0->b:0", "b:0->fetch:0"


def edge(name: str, level: int = 0, delivered: int = 0, **more: int) -> QueueStats:
    return QueueStats(name, 2, level, level + delivered, delivered, 0, **more)


def graph(*edges: QueueStats, in_flight: int = 5, **current: tuple[int, float] | None) -> GraphStats:
    nodes = tuple(NodeStats(name, 0, 100 + k, current=current.get(name)) for k, name in enumerate("ab"))
    return GraphStats("g", 1, Counters(in_flight), in_flight, 3, nodes, edges)


def moved(stats: GraphStats, calls: int) -> GraphStats:
    return replace(stats, nodes=tuple(replace(node, calls=calls) for node in stats.nodes))


def blocked(seconds: float) -> GraphStats:
    """Node b is in a call for so long, and a has waited for room nearly as long."""
    return graph(edge(IN, 2), edge(MID, 2), edge(OUT), a=(4, max(0.0, seconds - 1)), b=(1, seconds))


BLOCKED = blocked(12.0)


def test_one_report_for_each_stall() -> None:
    watch = StallWatch(10)
    found = [watch.look(t, blocked(t)) is not None for t in (0, 5, 9.9, 10, 12, 60)]
    assert found == [False, False, False, True, False, False]


def test_movement_begins_a_new_stall() -> None:
    watch = StallWatch(10)
    idle = graph(edge(IN, 1), edge(MID), edge(OUT))
    found = [watch.look(t, moved(idle, calls)) for t, calls in ((0, 0), (10, 0), (11, 1), (20, 1), (21, 1), (22, 1))]
    assert [stall and stall.seconds for stall in found] == [None, 10, None, None, 10, None]


def test_nothing_in_flight_is_no_stall() -> None:
    watch = StallWatch(10)
    assert not any(watch.look(t, graph(edge(IN), edge(MID), edge(OUT), in_flight=0)) for t in (0, 20, 40))


def test_results_that_lie_ready_are_the_callers_turn_until_they_hold_others_up() -> None:
    ready = graph(edge(IN), edge(MID), edge(OUT, 1), in_flight=1)
    watch = StallWatch(10)
    assert not any(watch.look(t, ready) for t in (0, 20, 40))
    full = graph(edge(IN), edge(MID, 1), edge(OUT, 2), in_flight=3)
    assert watch.look(41, full) is None
    stall = watch.look(52, full)
    assert stall is not None
    assert "cause: the caller does not fetch: queue b:0->fetch:0: 2 of 2 is full" in report(full, stall, READERS, {})


def test_long_call_is_reported_while_others_move_and_again_only_when_twice_as_long() -> None:
    watch, found = StallWatch(10), []
    for second in range(50):
        stats = moved(graph(edge(IN, 1), edge(MID), edge(OUT), b=(7, float(second))), second)
        stall = watch.look(float(second), stats)
        if stall is not None:
            found.append((second, stall.seconds, [node.node for node in stall.busy]))
    assert found == [(10, 0.0, ["b"]), (20, 0.0, ["b"]), (40, 0.0, ["b"])]


def test_calls_of_a_node_known_to_be_slow_are_no_new_stall() -> None:
    watch = StallWatch(10)
    slow = [graph(edge(IN, 1), edge(MID), edge(OUT), b=(1, seconds)) for seconds in (0.0, 12.0)]
    assert watch.look(0, slow[0]) is None
    assert watch.look(12, slow[1]) is not None
    again = moved(graph(edge(IN, 1), edge(MID), edge(OUT), b=(2, 13.0)), 1)
    assert [watch.look(t, again) for t in (20, 31, 33)] == [None] * 3


def test_report_names_edge_queues_nodes_transaction_and_stacks() -> None:
    watch = StallWatch(10)
    watch.look(0, blocked(0))
    stall = watch.look(12, BLOCKED)
    assert stall is not None
    assert [node.node for node in concerned(BLOCKED, stall, READERS)] == ["b"]
    text = report(BLOCKED, stall, READERS, {"b": "File x, line 1", "c": ""})
    for words in (
        "graph 'g' has not moved for 12 s: 5 transactions in flight, the oldest is 3",
        "cause: edge a:0->b:0 is blocked: node 'b' takes nothing from it",
        "(node b#0 (pid 101): transaction 1 for 12.0 s)",
        "full queue g:x->a:0: 2 of 2", "empty: b:0->fetch:0",
        "node a#0 (pid 100): running, 0 calls, 0 failed, working on transaction 4 for 11.0 s",
        "waits for room in a:0->b:0",
        "--- b ---\nFile x, line 1",
    ):
        assert words in text
    assert "--- c" not in text


@pytest.mark.parametrize(
    ("stats", "cause"),
    [
        (graph(edge(IN), edge(MID), edge(OUT)), "a node that joins, gathers or batches holds the messages"),
        (graph(edge(IN), edge(MID, 1), edge(OUT)), "node 'b' takes nothing from a:0->b:0"),
        (graph(edge(IN, 1), edge(MID), edge(OUT), a=(2, 30.0)), "node a#0 (pid 100) has not come back from its call"),
        (
            replace(BLOCKED, edges=(), nodes=(replace(BLOCKED.nodes[0], state="restarting"),)),
            "node a#0 (pid 100) is restarting",
        ),
    ],
)
def test_cause_is_what_to_look_at_first(stats: GraphStats, cause: str) -> None:
    busy = tuple(node for node in stats.nodes if node.current)
    assert cause in report(stats, Stall(30.0, busy), READERS, {})


def test_monitor_reports_through_logging_and_its_thread_ends_when_nothing_is_in_flight(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """BC-063: in the background, without anybody who waits."""
    told, state = threading.Event(), {"stats": BLOCKED}
    caplog.set_level(logging.WARNING, "dflow.stall")
    caplog.handler.emit, emit = (lambda record: (emit(record), told.set())), caplog.handler.emit  # type: ignore[assignment,method-assign]
    monitor = StallMonitor(
        0.02, lambda: state["stats"], READERS, {("a", 0): "pa", ("b", 0): "pb"}, lambda: {"pa": "A", "pb": "B"}
    )
    monitor.arm()
    thread = next(t for t in threading.enumerate() if t.name == "dflow-stall")
    monitor.arm()
    assert sum(t.name == "dflow-stall" for t in threading.enumerate()) == 1
    assert told.wait(10)
    assert "--- pb ---\nB" in caplog.text and "--- pa" not in caplog.text
    state["stats"] = graph(edge(IN), edge(MID), edge(OUT), in_flight=0)
    thread.join(10)
    assert not thread.is_alive() and not monitor.armed
    monitor.arm()
    assert monitor.armed
    monitor.close()
    assert not any(t.name == "dflow-stall" for t in threading.enumerate())
    monitor.arm()
    assert not any(t.name == "dflow-stall" for t in threading.enumerate())
