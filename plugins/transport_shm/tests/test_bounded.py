"""Nobody can make the transport grow: groups that come and go, consumers that stop, results that are kept."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from pathlib import Path

import pytest

from dflow_core.errors import PoolExhaustedError, QueueFullError
from dflow_core.spi.transport import GroupConfig, MemoryGroup, QueueStats, Transport
from dflow_core.testing.transport_contract.kit import Child, filled, hold_until_killed, in_use, value_of
from dflow_core.testing.waiting import wait_until

CONFIG = GroupConfig(memory_limit=1 << 20, max_blocks=64, max_members=8, max_queues=8)
MIB = 1 << 20


def private_bytes() -> int:
    """Memory this process has for itself alone."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def footprint() -> tuple[int, int]:
    """Descriptors and mappings of this process."""
    return len(os.listdir("/proc/self/fd")), len(Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())


def use_once(transport: Transport) -> None:
    """A group with all there is in it, made, used by two members and ended."""
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue, bell = group.create_queue("q", 2), group.doorbell()
        with contextlib.closing(transport.attach(group.handle(), group.handle().fds)) as member:
            for size in (100, 5000, 100_000):
                queue.put(filled(group, 1, size))
                assert bell.wait([queue], timeout=0)
                assert value_of(member.queue("q").get(0)) == 1


def test_a_thousand_groups_leave_nothing(transport: Transport) -> None:
    for _ in range(200):
        use_once(transport)
    gc.collect()
    before, at_first = footprint(), private_bytes()
    for _ in range(1000):
        use_once(transport)
    gc.collect()
    descriptors, mappings = footprint()
    assert descriptors == before[0]
    assert mappings <= before[1] + 2  # the interpreter may map an arena of its own
    assert private_bytes() < at_first + MIB


def stats_of(group: MemoryGroup, name: str) -> QueueStats:
    """Counters of one queue."""
    return next(queue for queue in group.stats().queues if queue.name == name)


def stop_holding_one(member: MemoryGroup) -> None:
    held = member.queue("slow").get(20)
    assert held is not None
    os.kill(os.getpid(), signal.SIGSTOP)
    hold_until_killed(held)


def echo(member: MemoryGroup) -> None:
    while True:
        block = member.queue("there").get(20)
        assert block is not None
        member.queue("back").put(block)


def test_stopped_consumer_bounds_its_producer_and_nobody_else(transport: Transport) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        slow, there, back = (group.create_queue(name, 2) for name in ("slow", "there", "back"))
        stopped, other = Child(transport, group, stop_holding_one), Child(transport, group, echo)
        slow.put(filled(group, 1))
        stopped.wait_stopped()
        slow.put(filled(group, 2))
        slow.put(filled(group, 3))
        with pytest.raises(QueueFullError, match=r"'slow' of 2 stayed full for 0\.05 s"):
            slow.put(filled(group, 4), 0.05)
        assert in_use(group) == 3
        stats = stats_of(group, "slow")
        assert (stats.level, stats.sent) == (2, 3)
        assert stats.blocked >= 0.05
        assert (stopped.pid, 1) in [(holder.pid, holder.blocks) for holder in group.stats().holders]
        for i in range(200):
            there.put(filled(group, i & 127), 20)
            assert value_of(back.get(20)) == i & 127
        stopped.kill()
        assert len(group.reclaim(stopped.pid)) == 1
        assert [value_of(slow.get(0)) for _ in "ab"] == [2, 3]
        other.kill()
        assert group.reclaim(other.pid) == []
        assert in_use(group) == 0
        assert stats_of(group, "slow").failed == 1


def test_kept_results_leave_an_error_that_names_who_keeps_them(transport: Transport) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue = group.create_queue("q", 8)

        def keep(member: MemoryGroup) -> None:
            hold_until_killed([member.queue("q").get(20) for _ in range(8)])

        for i in range(8):
            queue.put(filled(group, i, 120_000))
        keeper = Child(transport, group, keep)
        wait_until(lambda: queue.level() == 0)
        with pytest.raises(PoolExhaustedError, match=rf"\(pid {keeper.pid}\) holds 8 blocks"):
            group.alloc(200_000, 0.05)
        keeper.kill()
        group.reclaim(keeper.pid)
        assert group.alloc(CONFIG.memory_limit, 1).nbytes == CONFIG.memory_limit
