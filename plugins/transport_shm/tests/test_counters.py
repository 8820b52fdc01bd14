"""Counters that wrap around, and counters that are read while everything moves."""

from __future__ import annotations

import contextlib

import pytest

from dflow_core.spi.transport import GroupConfig, MemoryGroup, Overflow
from dflow_core.testing.transport_contract.kit import Child, adds_up, filled, in_use, thread, value_of
from dflow_transport_shm import ShmTransport
from dflow_transport_shm import bindings as native
from dflow_transport_shm.group import ShmGroup
from dflow_transport_shm.queue import ShmQueue

CONFIG = GroupConfig(memory_limit=4 << 20, max_blocks=64, max_members=8, max_queues=4)
STARTS = [2**32 - 3, 2**63 - 2, 2**64 - 3]


def queue_from(group: ShmGroup, start: int, depth: int = 3, overflow: Overflow = Overflow.BLOCK) -> ShmQueue:
    """A queue as if `start` messages had passed already."""
    native.queue_create(group._handle, "q", depth, list(Overflow).index(overflow), 1.0, start)
    return group.queue("q")


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("depth", [1, 3, 8])
def test_order_and_bounds_survive_the_wrap_around(transport: ShmTransport, start: int, depth: int) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue = queue_from(group, start, depth)
        for round_ in range(4):
            for i in range(depth):
                queue.put(filled(group, round_ * depth + i), 0)
            assert queue.level() == depth
            assert [value_of(queue.get(0)) for _ in range(depth)] == [round_ * depth + i for i in range(depth)]
            assert queue.get(0) is None
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.level) == (4 * depth, 4 * depth, 0)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST, Overflow.KEEP_LATEST])
def test_giving_way_survives_the_wrap_around(transport: ShmTransport, start: int, overflow: Overflow) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue = queue_from(group, start, 2, overflow)
        for i in range(10):
            queue.put(filled(group, i), 0)
        left = [value_of(block) for block in iter(lambda: queue.get(0), None)]
        gone = [value_of(block) for block in queue.take_dropped()]
        assert sorted(left + gone) == list(range(10)) and gone == sorted(gone)
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.dropped) == (10, len(left), len(gone))


def test_death_at_the_wrap_around_loses_what_was_held(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue = queue_from(group, 2**64 - 1, 4)
        for i in range(4):
            queue.put(filled(group, i))

        def work(member: MemoryGroup) -> None:
            assert isinstance(member, ShmGroup)
            member.stop_at(native.StopAt.GET_HEAD, kill=True, skip=1)
            kept = [member.queue("q").get(0) for _ in range(3)]
            raise AssertionError(kept)

        child = Child(transport, group, work)
        assert child.join() == -9
        assert [lost.queue for lost in group.reclaim(child.pid)] == ["q", "q"]
        assert [value_of(queue.get(0)) for _ in range(2)] == [2, 3]
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.failed, stats.level) == (4, 2, 2, 0)
        assert in_use(group) == 0


def test_counters_agree_at_any_moment(transport: ShmTransport) -> None:
    """Read without stopping anybody, and still sent = delivered + dropped + failed + level."""
    count = 3000
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue = group.create_queue("q", 3, Overflow.DROP_OLDEST)

        def produce() -> None:
            for i in range(count):
                queue.put(filled(group, i & 127), 20)
                queue.take_dropped()

        seen = 0
        with thread(produce):
            while seen < count:
                queue.get(0)
                stats = group.stats()
                assert adds_up(group)
                (now,) = stats.queues
                assert seen <= now.sent <= count and 0 <= now.level <= 3
                seen = now.sent
