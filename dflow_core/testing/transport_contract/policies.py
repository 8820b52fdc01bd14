"""Contract of what full queues do, of the counters, and of boards."""

from __future__ import annotations

import contextlib
import gc
import threading
import time

import numpy as np
import pytest

from dflow_core.errors import QueueFullError, UsageError
from dflow_core.spi import MemoryGroup, Overflow, Queue, Transport
from dflow_core.testing.transport_contract.kit import (
    SMALL,
    Contract,
    adds_up,
    filled,
    in_use,
    thread,
    value_of,
)
from dflow_core.testing.waiting import wait_until

AGE = 0.05
GIVING_WAY = (Overflow.DROP_OLDEST, Overflow.DROP_NEWEST, Overflow.KEEP_LATEST)


def values(queue: Queue) -> list[int]:
    """All that is in a queue, taken out."""
    return [value_of(block) for block in iter(lambda: queue.get(0), None)]


def dropped(queue: Queue) -> list[int]:
    """What this member's calls displaced."""
    return [value_of(block) for block in queue.take_dropped()]


def counts(group: MemoryGroup) -> tuple[int, int, int, int]:
    """Sent, delivered, dropped, level of the first queue."""
    first = group.stats().queues[0]
    return first.sent, first.delivered, first.dropped, first.level


def stale(queue: Queue, group: MemoryGroup) -> None:
    """Wait until what is in the queue is older than `AGE`."""
    wait_until(lambda: next(q for q in group.stats().queues if q.name == queue.name).oldest_age > 1.5 * AGE)


class PolicyContract(Contract):
    """Full queues, counters, boards."""

    @pytest.mark.parametrize(("overflow", "kept", "lost"), [
        (Overflow.DROP_OLDEST, [8, 9], list(range(8))),
        (Overflow.DROP_NEWEST, [0, 1], list(range(2, 10))),
        (Overflow.KEEP_LATEST, [9], list(range(9))),
    ], ids=lambda value: value.value if isinstance(value, Overflow) else "")
    def test_full_queue_gives_way(
        self, group: MemoryGroup, overflow: Overflow, kept: list[int], lost: list[int]
    ) -> None:
        """BC-025, BC-026: what comes out is what the policy keeps; the rest is counted and given to the caller."""
        queue = group.create_queue("q", 2, overflow)
        for i in range(10):
            block = filled(group, i)
            queue.put(block, 0)
            with pytest.raises(UsageError):
                block.array()
        assert queue.level() == len(kept) and in_use(group) == 10
        displaced = queue.take_dropped()
        assert [value_of(block) for block in displaced] == lost and queue.take_dropped() == []
        displaced.clear()
        assert in_use(group) == len(kept)
        assert values(queue) == kept
        assert counts(group) == (10, len(kept), len(lost), 0)

    def test_max_age_waits_while_all_are_fresh(self, group: MemoryGroup) -> None:
        queue = group.create_queue("q", 2, Overflow.MAX_AGE, max_age=60)
        for i in range(2):
            queue.put(filled(group, i), 0)
        block = filled(group, 2)
        for timeout in (0, 0.02):
            with pytest.raises(QueueFullError):
                queue.put(block, timeout)
        assert values(queue) == [0, 1] and dropped(queue) == []

    def test_max_age_makes_room_of_what_is_too_old(self, group: MemoryGroup) -> None:
        queue = group.create_queue("q", 2, Overflow.MAX_AGE, max_age=AGE)
        for i in range(2):
            queue.put(filled(group, i), 0)
        stale(queue, group)
        queue.put(filled(group, 2), 0)
        assert dropped(queue) == [0, 1]
        assert counts(group) == (3, 0, 2, 1)

    def test_waiting_put_goes_on_when_the_oldest_grows_too_old(self, group: MemoryGroup) -> None:
        queue = group.create_queue("q", 1, Overflow.MAX_AGE, max_age=AGE)
        queue.put(filled(group, 0))
        queue.put(filled(group, 1), 20)
        assert dropped(queue) == [0] and queue.level() == 1

    def test_doorbell_hears_that_the_oldest_grew_too_old(self, group: MemoryGroup) -> None:
        queue = group.create_queue("q", 1, Overflow.MAX_AGE, max_age=AGE)
        queue.put(filled(group, 0))
        start = time.monotonic()
        while not group.doorbell().wait([], [queue], timeout=20):
            pass
        assert time.monotonic() - start < 15
        queue.put(filled(group, 1), 0)

    def test_get_delivers_nothing_that_is_too_old(self, group: MemoryGroup) -> None:
        queue = group.create_queue("q", 4, Overflow.MAX_AGE, max_age=AGE)
        for i in range(3):
            queue.put(filled(group, i))
        stale(queue, group)
        queue.put(filled(group, 3))
        got = queue.get(0)
        assert dropped(queue) == [0, 1, 2]
        if got is not None:  # else this took so long that it was too old as well
            assert value_of(got) == 3
        assert queue.get(0.01) is None and adds_up(group)

    @pytest.mark.parametrize("age", [0.0, -1.0])
    def test_impossible_age_is_refused(self, group: MemoryGroup, age: float) -> None:
        with pytest.raises(UsageError):
            group.create_queue("q", 2, Overflow.MAX_AGE, age)

    @pytest.mark.parametrize("overflow", GIVING_WAY, ids=lambda overflow: overflow.value)
    def test_many_threads_lose_only_what_is_counted(self, group: MemoryGroup, overflow: Overflow) -> None:
        queue, each, seen, lock = group.create_queue("q", 3, overflow), 300, np.zeros(3, np.int64), threading.Lock()

        def note(kind: int, number: int) -> None:
            with lock:
                seen[kind] += number

        def produce() -> None:
            for i in range(each):
                queue.put(filled(group, i & 127), 20)
                note(0, len(queue.take_dropped()))

        def consume() -> None:
            while not done.is_set() or queue.level():
                note(1, queue.get(0.01) is not None)

        done = threading.Event()
        with thread(consume), thread(consume):
            with thread(produce), thread(produce):
                pass
            done.set()
        note(0, len(queue.take_dropped()))
        assert counts(group) == (2 * each, seen[1], seen[0], 0)
        assert seen[0] + seen[1] == 2 * each and in_use(group) == 0

    def test_counters_tell_how_long_things_wait(self, group: MemoryGroup, queue: Queue) -> None:
        assert queue.get(0.05) is None
        for _ in range(4):
            queue.put(group.alloc(1))
        with pytest.raises(QueueFullError):
            queue.put(group.alloc(1), 0.05)
        (stats,) = group.stats().queues
        assert 0.04 < stats.waiting < 20 and 0.04 < stats.blocked < 20
        wait_until(lambda: group.stats().queues[0].oldest_age > 0.05)
        while queue.get(0) is not None:
            pass
        assert group.stats().queues[0].oldest_age == 0

    def test_board_is_shared_and_zero_at_first(self, transport: Transport, group: MemoryGroup) -> None:
        board = group.board("node/counters→", 20)
        assert (board.dtype.name, board.shape, int(board.sum())) == ("uint64", (20,), 0)
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds)) as member:
            seen = member.board("node/counters→", 20)
            board[7] = 2**64 - 1
            assert int(seen[7]) == 2**64 - 1
            assert int(member.board("another", 3).sum()) == 0
            seen[8] = 5
            del seen
        assert int(group.board("node/counters→", 20)[8]) == 5

    @pytest.mark.parametrize(("name", "words"), [("known", 4), ("", 1), ("x" * 256, 1), ("nul\0", 1), ("none", 0)])
    def test_impossible_board_is_refused(self, group: MemoryGroup, name: str, words: int) -> None:
        group.board("known", 3)
        with pytest.raises(UsageError):
            group.board(name, words)

    def test_queue_may_have_the_name_of_a_board(self, group: MemoryGroup) -> None:
        group.create_queue("same", 1)
        assert group.board("same", 1).size == 1

    def test_board_outlives_its_group_object(self, transport: Transport) -> None:
        group = transport.create_group(SMALL)
        board = group.board("b", 4)
        group.close()
        del group
        gc.collect()
        board[3] = 9
        assert int(board.sum()) == 9
