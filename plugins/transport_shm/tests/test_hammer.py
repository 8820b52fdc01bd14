"""Many processes, tiny queues: no wake-up and no message may be lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

import pytest

from dflow_core.errors import ClosedError
from dflow_core.spi.transport import GroupConfig, MemoryGroup
from dflow_core.testing.transport_contract.kit import Child, filled, in_use
from dflow_transport_shm import ShmTransport
from dflow_transport_shm import bindings as native
from dflow_transport_shm.group import ShmGroup

# Longer than any test: with slices of a tenth of a second a lost wake-up would only look slow.
FOR_EVER = 100_000_000_000
CPUS = sorted(os.sched_getaffinity(0))


def config(spin_us: int) -> GroupConfig:
    return GroupConfig(memory_limit=4 << 20, max_blocks=64, max_members=16, max_queues=8, spin_us=spin_us)


def on_cpu(index: int) -> None:
    os.sched_setaffinity(0, {CPUS[index % len(CPUS)]})


@pytest.mark.parametrize("spin_us", [0, 5])
@pytest.mark.parametrize("depth", [1, 2])
def test_no_wake_up_is_lost_between_cpus(transport: ShmTransport, depth: int, spin_us: int) -> None:
    count = 8000

    def produce(member: MemoryGroup) -> None:
        assert isinstance(member, ShmGroup)
        on_cpu(1)
        number = member.queue("q").number
        for i in range(count):
            block = filled(member, i & 127)
            assert native.put(member._handle, number, block.hand_over(), FOR_EVER) == 0

    with contextlib.closing(transport.create_group(config(spin_us))) as group:
        queue = group.create_queue("q", depth)
        child = Child(transport, group, produce)
        for i in range(count):
            key = native.get(group._handle, queue.number, FOR_EVER)
            assert key >= 0
            address, _ = native.block_info(group._handle, key)
            assert native.release(group._handle, key) == 0
            assert address, i
        assert child.join() == 0
        assert in_use(group) == 0


def test_no_wake_up_is_lost_at_a_doorbell(transport: ShmTransport) -> None:
    count = 4000

    def produce(member: MemoryGroup) -> None:
        on_cpu(1)
        queues = [member.queue(f"q{i}") for i in range(3)]
        for i in range(count):
            queues[i % 3].put(filled(member, i & 127))

    with contextlib.closing(transport.create_group(config(0))) as group:
        queues = [group.create_queue(f"q{i}", 1) for i in range(3)]
        child = Child(transport, group, produce)
        bell, ids = group.doorbell(), native.id_array([q.number for q in queues])
        got = 0
        while got < count:
            for queue in queues:
                got += queue.get(0) is not None
            if not any(queue.level() for queue in queues) and got < count:
                assert native.bell_wait(group._handle, bell._bell, ids, 3, ids, 0, FOR_EVER) == 1
        assert child.join() == 0


def test_messages_of_many_producers_reach_many_consumers_once(transport: ShmTransport) -> None:
    each, producers, consumers = 2000, 3, 3

    def produce(number: int) -> Callable[[MemoryGroup], None]:
        def work(member: MemoryGroup) -> None:
            on_cpu(number)
            queue = member.queue("q")
            for _ in range(each):
                queue.put(filled(member, number, 300), 60)

        return work

    def consume(number: int) -> Callable[[MemoryGroup], None]:
        def work(member: MemoryGroup) -> None:
            on_cpu(number)
            queue, sums = member.queue("q"), [0] * producers
            with contextlib.suppress(ClosedError):
                while True:
                    block = queue.get(60)
                    assert block is not None
                    data = block.array()
                    assert data.min() == data.max()
                    sums[data[0]] += 1
            report = member.alloc(8 * producers)
            report.array(writable=True).view("<i8")[:] = sums
            member.queue("report").put(report)

        return work

    with contextlib.closing(transport.create_group(config(5))) as group:
        queue, reports = group.create_queue("q", 2), group.create_queue("report", consumers)
        readers = [Child(transport, group, consume(i)) for i in range(consumers)]
        writers = [Child(transport, group, produce(i)) for i in range(producers)]
        assert [child.join() for child in writers] == [0] * producers
        queue.close()
        assert [child.join() for child in readers] == [0] * consumers
        totals = [0] * producers
        for _ in range(consumers):
            block = reports.get(0)
            assert block is not None
            totals = [a + int(b) for a, b in zip(totals, block.array().view("<i8"))]
            del block
        assert totals == [each] * producers
        assert in_use(group) == 0
        stats = {q.name: q for q in group.stats().queues}
        assert (stats["q"].sent, stats["q"].delivered, stats["q"].level) == (each * producers, each * producers, 0)
