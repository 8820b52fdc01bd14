"""Contract of queues."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pytest

from dflow_core.errors import ClosedError, QueueFullError, UsageError
from dflow_core.spi import MemoryGroup, Overflow, Queue, Transport
from dflow_core.testing.transport_contract.kit import SMALL, Contract, filled, in_use, thread, value_of


class QueueContract(Contract):
    """Queues."""

    def test_blocks_come_out_in_the_order_they_went_in(self, group: MemoryGroup, queue: Queue) -> None:
        for round_ in range(5):
            for i in range(4):
                queue.put(filled(group, round_ * 4 + i))
            assert queue.level() == 4
            assert [value_of(queue.get(0)) for _ in range(4)] == [round_ * 4 + i for i in range(4)]
        assert queue.level() == in_use(group) == 0

    def test_put_takes_the_reference(self, group: MemoryGroup, queue: Queue) -> None:
        block = filled(group, 1)
        queue.put(block)
        with pytest.raises(UsageError):
            queue.put(block)
        with pytest.raises(UsageError):
            block.array()
        del block
        assert queue.level() == in_use(group) == 1
        assert value_of(queue.get()) == 1

    def test_retained_block_goes_to_many_queues(self, group: MemoryGroup) -> None:
        queues = [group.create_queue(f"out{i}", 1) for i in range(3)]
        block = filled(group, 8)
        for queue in queues:
            queue.put(block.retain())
        block.release()
        assert in_use(group) == 1
        got = [queue.get(0) for queue in queues]
        assert len({block.array().ctypes.data for block in got if block is not None}) == 1
        assert [value_of(block) for block in got] == [8, 8, 8]
        del got
        assert in_use(group) == 0

    def test_full_queue_refuses_and_the_caller_keeps_the_block(self, group: MemoryGroup, queue: Queue) -> None:
        for _ in range(4):
            queue.put(group.alloc(1))
        block = filled(group, 6)
        for timeout in (0, 0.02, 0.15):
            start = time.monotonic()
            with pytest.raises(QueueFullError, match="work"):
                queue.put(block, timeout)
            assert timeout * 0.9 <= time.monotonic() - start < 5
        assert value_of(block) == 6
        queue.get()
        queue.put(block, 0)
        assert queue.level() == 4

    def test_empty_queue_gives_none_after_the_limit(self, queue: Queue) -> None:
        for timeout in (0, 0.02, 0.15):
            start = time.monotonic()
            assert queue.get(timeout) is None
            assert timeout * 0.9 <= time.monotonic() - start < 5

    def test_waiting_get_is_woken_by_a_put(self, group: MemoryGroup, queue: Queue) -> None:
        got: list[int] = []
        with thread(lambda: got.append(value_of(queue.get(10)))):
            queue.put(filled(group, 4))
        assert got == [4]

    def test_waiting_put_is_woken_by_a_get(self, group: MemoryGroup, queue: Queue) -> None:
        for i in range(4):
            queue.put(filled(group, i))
        with thread(lambda: queue.put(filled(group, 9), 10)):
            assert [value_of(queue.get(10)) for _ in range(5)] == [0, 1, 2, 3, 9]

    def test_closed_queue_gives_what_is_in_it_and_then_ends(self, group: MemoryGroup, queue: Queue) -> None:
        queue.put(filled(group, 1))
        queue.close()
        queue.close()
        block = group.alloc(1)
        with pytest.raises(ClosedError, match="work"):
            queue.put(block)
        assert block.nbytes == 1
        assert value_of(queue.get()) == 1
        with pytest.raises(ClosedError):
            queue.get()

    @pytest.mark.parametrize("full", [True, False])
    def test_close_wakes_those_who_wait(self, group: MemoryGroup, queue: Queue, full: bool) -> None:
        for _ in range(4 if full else 0):
            queue.put(group.alloc(1))

        def wait() -> None:
            with pytest.raises(ClosedError):
                if full:
                    queue.put(group.alloc(1))
                else:
                    queue.get()

        with thread(wait), thread(wait):
            queue.close()

    def test_drop_oldest_keeps_the_latest(self, group: MemoryGroup) -> None:
        """BC-025, BC-026: what comes out is the newest, and drops are counted."""
        queue = group.create_queue("latest", 2, Overflow.DROP_OLDEST)
        for i in range(10):
            queue.put(filled(group, i), 0)
        queue.take_dropped()
        assert in_use(group) == 2
        assert [value_of(queue.get(0)), value_of(queue.get(0)), queue.get(0)] == [8, 9, None]
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.dropped, stats.level) == (10, 2, 8, 0)

    def test_drop_newest_keeps_the_first(self, group: MemoryGroup) -> None:
        queue = group.create_queue("first", 2, Overflow.DROP_NEWEST)
        for i in range(10):
            queue.put(filled(group, i), 0)
        queue.take_dropped()
        assert in_use(group) == 2
        assert [value_of(queue.get(0)), value_of(queue.get(0)), queue.get(0)] == [0, 1, None]
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.dropped, stats.level) == (10, 2, 8, 0)

    def test_queue_is_found_by_name(self, group: MemoryGroup) -> None:
        """BC-012: any text is a name."""
        name = "Förderband→" + "ü" * 110
        made = group.create_queue(name, 3)
        found = group.queue(name)
        made.put(filled(group, 5))
        assert (found.name, found.depth, value_of(found.get(0))) == (name, 3, 5)

    def test_unknown_queue_lists_near_names(self, group: MemoryGroup) -> None:
        group.create_queue("detector/in", 1)
        with pytest.raises(UsageError, match="detector/in"):
            group.queue("detecter/in")

    @pytest.mark.parametrize(("name", "depth"), [("work", 4), ("", 1), ("x" * 256, 1), ("nul\0", 1), ("zero", 0)])
    def test_impossible_queue_is_refused(self, group: MemoryGroup, queue: Queue, name: str, depth: int) -> None:
        with pytest.raises(UsageError):
            group.create_queue(name, depth)

    def test_block_of_another_group_is_refused(self, transport: Transport, queue: Queue) -> None:
        with contextlib.closing(transport.create_group(SMALL)) as other, pytest.raises(UsageError):
            queue.put(other.alloc(1))

    def test_many_producers_and_consumers_lose_nothing(self, group: MemoryGroup, queue: Queue) -> None:
        each, got = 500, np.zeros(4, np.int64)

        def produce(number: int) -> None:
            for _ in range(each):
                queue.put(filled(group, number), 20)

        def consume() -> None:
            with contextlib.suppress(ClosedError):
                while True:
                    value = value_of(queue.get(20))
                    with lock:
                        got[value] += 1

        lock = threading.Lock()
        with thread(consume), thread(consume), thread(consume):
            with thread(lambda: produce(1)), thread(lambda: produce(2)), thread(lambda: produce(3)):
                pass
            queue.close()
        assert got.tolist() == [0, each, each, each]
        assert in_use(group) == 0
