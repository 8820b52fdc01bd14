"""Contract of doorbells."""

from __future__ import annotations

import contextlib
import time

from dflow_core.spi import MemoryGroup, Queue
from dflow_core.testing.transport_contract.kit import Contract, filled, thread, value_of


class DoorbellContract(Contract):
    """Waiting for many queues at once."""

    def test_nothing_to_do_ends_with_the_limit(self, group: MemoryGroup, queue: Queue) -> None:
        bell = group.doorbell()
        for timeout in (0, 0.02, 0.15):
            start = time.monotonic()
            assert not bell.wait([queue], timeout=timeout)
            assert timeout * 0.9 <= time.monotonic() - start < 5

    def test_block_in_any_queue_ends_the_wait(self, group: MemoryGroup) -> None:
        queues = [group.create_queue(f"in{i}", 2) for i in range(5)]
        bell = group.doorbell()
        for queue in queues:
            with thread(lambda queue=queue: queue.put(filled(group, 1))):  # type: ignore[misc]
                while not bell.wait(queues, timeout=10):
                    pass
                assert [q.level() for q in queues if q is queue] == [1]
            assert value_of(queue.get(0)) == 1

    def test_room_in_a_full_queue_ends_the_wait(self, group: MemoryGroup, queue: Queue) -> None:
        for _ in range(4):
            queue.put(group.alloc(1))
        bell = group.doorbell()
        assert not bell.wait([], [queue], timeout=0)
        with thread(lambda: queue.get(10)):
            assert bell.wait([], [queue], timeout=10)

    def test_closing_ends_the_wait(self, group: MemoryGroup, queue: Queue) -> None:
        bell = group.doorbell()
        with thread(queue.close):
            assert bell.wait([queue], timeout=10)
        assert bell.wait([], [queue], timeout=10)

    def test_ring_ends_this_wait_or_the_next(self, group: MemoryGroup, queue: Queue) -> None:
        bell = group.doorbell()
        bell.ring()
        assert bell.wait([queue], timeout=10)
        assert not bell.wait([queue], timeout=0.01)
        with thread(bell.ring):
            assert bell.wait([queue], timeout=10)

    def test_every_doorbell_hears_a_message(self, group: MemoryGroup, queue: Queue) -> None:
        bells = [group.doorbell() for _ in range(3)]
        heard: list[bool] = []
        with contextlib.ExitStack() as stack:
            for bell in bells:
                stack.enter_context(thread(lambda bell=bell: heard.append(bell.wait([queue], timeout=10))))  # type: ignore[misc]
            queue.put(group.alloc(1))
        assert heard == [True] * 3

    def test_ping_pong_over_the_smallest_queues(self, group: MemoryGroup) -> None:
        there, back = group.create_queue("there", 1), group.create_queue("back", 1)
        rounds = 1000

        def answer() -> None:
            bell = group.doorbell()
            for _ in range(rounds):
                while (block := there.get(0)) is None:
                    bell.wait([there], timeout=10)
                back.put(block, 10)

        with thread(answer):
            for i in range(rounds):
                there.put(filled(group, i & 255), 10)
                assert value_of(back.get(10)) == i & 255
