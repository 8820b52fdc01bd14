"""Random operations against a model in plain Python: contents, counts and drops agree at every step."""

from __future__ import annotations

import contextlib
import random
from collections import deque

import pytest

from dflow_core.errors import PoolExhaustedError, QueueFullError
from dflow_core.message import Block
from dflow_core.spi import GroupConfig, MemoryGroup, Overflow
from dflow_core.testing.transport_contract.kit import in_use, value_of
from dflow_transport_shm import ShmTransport

LIMIT = 2 << 20
DEPTH = 3

POLICIES = (Overflow.BLOCK, Overflow.DROP_OLDEST, Overflow.DROP_NEWEST)


class Model:
    """Blocks held here as (block, value), and what each queue should contain."""

    def __init__(self, group: MemoryGroup, seed: int) -> None:
        self.group = group
        self.rng = random.Random(seed)
        self.held: list[tuple[Block, int]] = []
        self.queues = {how: group.create_queue(how.value, DEPTH, how) for how in POLICIES}
        self.inside: dict[Overflow, deque[int]] = {how: deque() for how in POLICIES}
        self.copies: dict[int, int] = {}
        self.next = 0

    def alloc(self) -> None:
        size = self.rng.choice([1, 100, 4096, 4097, 70_000, 900_000])
        try:
            block = self.group.alloc(size)
        except PoolExhaustedError:
            assert self.group.stats().bytes_in_use + size > LIMIT - 8192
            return
        self.next += 1
        block.array(writable=True)[:] = self.next & 255
        self.held.append((block, self.next))
        self.copies[self.next] = 1

    def retain(self) -> None:
        block, value = self.rng.choice(self.held)
        self.held.append((block.retain(), value))
        self.copies[value] += 1

    def release(self) -> None:
        block, value = self.held.pop(self.rng.randrange(len(self.held)))
        block.release()
        self.gone(value)

    def put(self) -> None:
        how = self.rng.choice(list(POLICIES))
        block, value = self.held.pop(self.rng.randrange(len(self.held)))
        full = len(self.inside[how]) == DEPTH
        if full and how is Overflow.BLOCK:
            with pytest.raises(QueueFullError):
                self.queues[how].put(block, 0)
            self.held.append((block, value))
            return
        self.queues[how].put(block, 0)
        if full and how is Overflow.DROP_NEWEST:
            self.displaced(how, value)
            return
        if full:
            self.displaced(how, self.inside[how].popleft())
        self.inside[how].append(value)

    def get(self) -> None:
        how = self.rng.choice(list(POLICIES))
        block = self.queues[how].get(0)
        if block is None:
            assert not self.inside[how]
            return
        value = self.inside[how].popleft()
        assert value_of(block) == value & 255
        self.held.append((block, value))

    def displaced(self, how: Overflow, value: int) -> None:
        """Ours now, until we let it go."""
        (block,) = self.queues[how].take_dropped()
        assert value_of(block) == value & 255
        self.held.append((block, value))

    def gone(self, value: int) -> None:
        self.copies[value] -= 1
        if not self.copies[value]:
            del self.copies[value]

    def check(self) -> None:
        assert in_use(self.group) == len(self.copies)
        assert all(value_of(block) == value & 255 for block, value in self.held)
        for how, queue in self.queues.items():
            assert queue.level() == len(self.inside[how])


@pytest.mark.parametrize("seed", range(12))
def test_group_does_what_the_model_does(transport: ShmTransport, seed: int) -> None:
    config = GroupConfig(memory_limit=LIMIT, max_blocks=4000, max_members=2, max_queues=4)
    with contextlib.closing(transport.create_group(config)) as group:
        model = Model(group, seed)
        for _ in range(600):
            steps = [model.alloc, model.get] + [model.retain, model.put, model.put, model.release] * bool(model.held)
            model.rng.choice(steps)()
            model.check()
        while model.held:
            model.release()
        while any(model.inside.values()):
            model.get()
        model.held.clear()
        assert in_use(group) == 0
        stats = group.stats()
        assert all(q.sent == q.delivered + q.dropped + q.failed + q.level for q in stats.queues)
        assert group.alloc(LIMIT).nbytes == LIMIT
