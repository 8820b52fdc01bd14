"""Counters that lie in shared memory, and what is made of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.errors import DflowError
from dflow_core.executor.caller.stats import StatsReader, graph_stats, own_stacks
from dflow_core.executor.meter import WORDS, Meter, MeterReader, NodeStats, board_name
from dflow_core.executor.outcomes import Counters
from dflow_core.model import DeployPlan, InstancePlan, ProcessPlan, QueuePlan
from dflow_core.spi import Deployment, GroupConfig, InstanceStatus, MemoryGroup, QueueStats


@pytest.fixture
def group():
    with contextlib.closing(InprocTransport().create_group(GroupConfig(memory_limit=1 << 16))) as made:
        yield made


class Running(Deployment):
    """A deployment of one node and a lossy queue."""

    def __init__(self, group: MemoryGroup, pid: int) -> None:
        plan = InstancePlan("n", 0, 1, "n", "cpu:0", 1, ("q",), ())
        queues = (QueuePlan("q", 2, "drop_oldest", 0.0, "dropped: q"), QueuePlan("dropped: q", 2))
        self.plan = DeployPlan("g", "", (ProcessPlan("n", "UDF", "", (plan,)),), queues, (), (), 1)
        self.group, self._pid = group, pid
        if not group.stats().queues:
            for queue in queues:
                group.create_queue(queue.name, queue.depth)

    def failure(self) -> DflowError | None:
        return None

    def status(self) -> Sequence[InstanceStatus]:
        return [InstanceStatus("n", 0, "n", self._pid, "running", 2, 5, 1.5, (9, 0.5))]

    def stacks(self) -> Mapping[str, str]:
        return {}

    def close(self, timeout: float | None = None) -> None:
        pass


def meter(group, *, works: bool = True) -> Meter:
    """The counters of the only instance, as the process that runs it has them."""
    made = Meter(group.board(board_name("n", 0), WORDS))
    if works:
        made.begin()
    return made


def test_what_an_instance_counts_is_read_by_others(group) -> None:
    reader = MeterReader(group, "n", 0)
    assert reader.read(os.getpid(), "running", 0) is None
    mine = meter(group)
    mine.start(7, 1.0)
    stats = reader.read(os.getpid(), "running", 1)
    assert stats is not None and stats.current is not None and stats.current[0] == 7 and stats.current[1] > 0
    mine.end(3, 2.5, 0.5)
    mine.ints[2] += 1
    stats = reader.read(os.getpid(), "running", 1)
    assert stats is not None
    assert (stats.calls, stats.failed, stats.busy, stats.blocked, stats.current) == (3, 1, 2.5, 0.5, None)


def test_counters_go_on_in_the_next_life_and_a_dead_one_has_nothing_in_work(group) -> None:
    first = meter(group)
    first.end(3, 2.5, 0.5)
    first.start(7, 1.0)
    dead = MeterReader(group, "n", 0).read(0, "restarting", 1)
    assert dead is not None and (dead.calls, dead.current, dead.waiting) == (3, None, 0.0)
    second = meter(group)
    assert (second.ints[1], second.floats[4], second.floats[6]) == (3, 2.5, 0.0)


def test_a_process_that_only_waits_to_take_over_counts_nothing_yet(group) -> None:
    """One that is loaded beside the old by an update; it may never come to work."""
    old, reader = meter(group), MeterReader(group, "n", 0)
    heir = meter(group, works=False)
    old.end(3, 2.5, 0.5)
    old.start(7, 1.0)
    stats = reader.read(os.getpid(), "running", 0)
    assert stats is not None and stats.current is not None and (stats.calls, stats.current[0]) == (3, 7)
    old.end(4, 3.0, 0.5)
    assert heir.begin() == (4, 3.0, 0.5), "it goes on from where the old has stopped, not from where it was at loading"


def test_names_of_any_length_have_a_board(group) -> None:
    long = "n" * 300
    assert len(board_name(long, 0).encode()) <= 255 and board_name(long, 0) != board_name(long, 1)
    assert MeterReader(group, long, 0).read(1, "running", 0) is None


def test_nodes_that_do_not_count_for_themselves_are_asked(group) -> None:
    (node,) = StatsReader(Running(group, 11)).nodes()
    assert (node.pid, node.restarts, node.calls, node.busy, node.current) == (11, 2, 5, 1.5, (9, 0.5))
    meter(group).end(8, 2.0, 0.0)
    (node,) = StatsReader(Running(group, os.getpid())).nodes()
    assert (node.calls, node.busy) == (8, 2.0)


def test_queues_of_notices_are_no_edges(group) -> None:
    edges, _ = StatsReader(Running(group, 1)).edges()
    assert [edge.name for edge in edges] == ["q"]


def test_status_says_what_was_lost_where() -> None:
    edges = (
        QueueStats("a", 2, 0, 10, 10, 0), QueueStats("b", 2, 0, 10, 5, 3, 2), QueueStats("c", 2, 0, 4, 3, 1),
    )
    stats = graph_stats("g", Counters(3, 2, 0, 1), [5, 6], (), edges, 7)
    assert stats.status == "incomplete: lost b: 3 dropped and 2 failed of 10 messages; c: 1 dropped of 4 messages"
    assert (stats.in_flight, stats.oldest, stats.bytes_in_use) == (2, 5, 7)
    assert graph_stats("g", Counters(), [], (), edges[:1]).status == "complete"


def test_restarts_and_what_was_given_up_are_told_with_the_reason() -> None:
    nodes = (
        NodeStats("a", 0), NodeStats("a", 1, restarts=1), NodeStats("b", 0, state="failed", given_up=(3.2, "killed")),
        NodeStats("c", 0, state="failed", restarts=2, given_up=(60.0, "too often")),
    )
    assert graph_stats("g", Counters(), [], nodes, ()).notes == (
        "a#1: started again 1 time", "b#0: never started again, given up 3 s ago: killed",
        "c#0: started again 2 times, given up 60 s ago: too often",
    )


def test_own_stacks_name_this_function() -> None:
    assert "test_own_stacks_name_this_function" in own_stacks() and "MainThread" in own_stacks()
