"""The data area: sizes beyond 32 bits, reuse, and the default limit."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from dflow_core.errors import PoolExhaustedError, UsageError
from dflow_core.spi.transport import GroupConfig, MemoryGroup
from dflow_core.testing.transport_contract.kit import Child, filled, hold_until_killed, in_use, thread
from dflow_core.testing.waiting import wait_until
from dflow_transport_shm import ShmTransport
from dflow_transport_shm.limits import default_memory_limit

GIB = 1 << 30
MIB = 1 << 20


def test_group_larger_than_memory_costs_only_what_is_used(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=512 * GIB))) as group:
        blocks = [filled(group, i, 5000) for i in range(10)]
        stats = group.stats()
        assert stats.memory_limit == 512 * GIB
        assert stats.bytes_in_use == 10 * 8192
        assert stats.bytes_backed < MIB
        assert [int(block.array()[-1]) for block in blocks] == list(range(10))


def test_block_beyond_all_memory_fails_and_the_group_goes_on(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=1 * GIB))) as group:
        for size in (GIB + 1, 2**32, 2**40, 2**62):
            with pytest.raises(PoolExhaustedError):
                group.alloc(size)
        for size in (-1, 2**64):
            with pytest.raises(UsageError):
                group.alloc(size)
        assert filled(group, 1, 4097).nbytes == 4097


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_block_of_more_than_two_gib_is_one_message(transport: ShmTransport) -> None:
    size = 3 * GIB + 17
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=4 * GIB))) as group:
        queue = group.create_queue("q", 1)
        block = group.alloc(size)
        array = block.array(writable=True)
        array[[0, 2**31, 2**32 - 1 if size > 2**32 else 2**31 + 1, size - 1]] = 7
        queue.put(block)
        del array, block
        got = queue.get(0)
        assert got is not None
        assert (got.nbytes, int(got.array()[-1]), int(got.array()[2**31])) == (size, 7, 7)
        del got
        assert group.trim() >= 3 * GIB


def test_large_messages_of_many_sizes_share_their_blocks(transport: ShmTransport) -> None:
    """BC-007: one message at a time, of up to 6 MiB and no two alike, takes the memory of a few, not of them all."""
    rng = np.random.default_rng(1)
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=2 * GIB))) as group:
        queue = group.create_queue("q", 2)
        for number, size in enumerate(rng.integers(MIB, 6 * MIB, 300)):
            block = group.alloc(int(size))
            array = block.array(writable=True)
            array[[0, -1]] = number % 256
            del array
            queue.put(block)
            del block
            got = queue.get(0)
            assert got is not None
            assert (got.nbytes, got.array()[0], got.array()[-1]) == (size, number % 256, number % 256)
            del got
        assert group.stats().bytes_backed <= 64 * MIB


def test_use_stays_level_under_mixed_sizes(transport: ShmTransport) -> None:
    """BC-007: sizes of 4 KiB, 1 MiB and a few of 24 MiB through four queues."""
    rng = np.random.default_rng(1)
    backed = []
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=2 * GIB))) as group:
        queues = [group.create_queue(f"q{i}", 4) for i in range(4)]
        for number in range(2000):
            size = 24 * MIB if rng.random() < 0.01 else int(rng.choice([4096, MIB]))
            queue = queues[number % 4]
            if queue.level() == 4:
                queue.get(0)
            queue.put(group.alloc(size))
            if number % 200 == 199:
                backed.append(group.stats().bytes_backed)
        assert backed[-1] <= backed[3] * 1.5 + 64 * MIB
        while any(queue.get(0) is not None for queue in queues):
            pass
        assert in_use(group) == 0
        group.trim()
        assert group.stats().bytes_backed == 0


def test_block_freed_last_is_used_next(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=64 * MIB))) as group:
        blocks = [group.alloc(MIB) for _ in range(5)]
        address = blocks[3].array().ctypes.data
        blocks[3].release()
        assert group.alloc(MIB).array().ctypes.data == address


@pytest.mark.parametrize(
    "config",
    [
        GroupConfig(memory_limit=-1),
        GroupConfig(memory_limit=2**60),
        GroupConfig(max_blocks=0),
        GroupConfig(max_blocks=2**30),
        GroupConfig(max_members=0),
        GroupConfig(max_queues=-1),
        GroupConfig(spin_us=-1),
    ],
)
def test_impossible_configuration_is_refused(transport: ShmTransport, config: GroupConfig) -> None:
    with pytest.raises(UsageError):
        transport.create_group(config)


def machine(tmp_path: Path, available_kib: int, files: dict[str, str], cgroup: str) -> tuple[Path, Path]:
    """A proc and a control group file system with these figures."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {available_kib} kB\n")
    (proc / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(text)
    return proc, cgroups


@pytest.mark.parametrize(
    ("available", "files", "cgroup", "expected"),
    [
        (8 << 20, {}, "0::/\n", 4 * GIB),
        (8 << 20, {"a/b/memory.max": "max\n", "a/memory.max": str(2 * GIB)}, "0::/a/b\n", 1 * GIB),
        (8 << 20, {"memory/x/memory.limit_in_bytes": str(GIB)}, "5:cpu:/y\n4:memory:/x\n", GIB // 2),
        (1 << 40, {}, "0::/\n", 64 * GIB),
        (1024, {}, "", 64 * MIB),
    ],
)
def test_default_limit_is_half_of_what_is_available(
    tmp_path: Path, available: int, files: dict[str, str], cgroup: str, expected: int
) -> None:
    assert default_memory_limit(*machine(tmp_path, available, files, cgroup)) == expected


def test_default_limit_without_any_figures_is_small(tmp_path: Path) -> None:
    assert default_memory_limit(tmp_path / "none", tmp_path / "none") == 64 * MIB


def test_group_without_a_limit_gets_the_default(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(GroupConfig())) as group:
        assert 64 * MIB <= group.stats().memory_limit <= 64 * GIB


def test_fresh_block_passes_for_no_earlier_message(transport: ShmTransport) -> None:
    """A member that dies before it wrote anything must not be taken for the holder of an old message."""
    with contextlib.closing(transport.create_group(GroupConfig())) as group:
        board = group.board("ready", 1)

        def reuse(member: MemoryGroup) -> None:
            filled(member, 7, 5000).release()
            fresh = member.alloc(5000)
            kept = fresh.retain()
            assert int(fresh.array()[0]) == 7
            member.board("ready", 1)[0] = 1
            hold_until_killed([fresh, kept])

        child = Child(transport, group, reuse)
        wait_until(lambda: bool(board[0]))
        child.kill()
        assert [(lost.head, lost.aux) for lost in group.reclaim(child.pid)] == [(bytes(256), b"")]


def test_memory_cached_by_one_member_serves_all(transport: ShmTransport) -> None:
    """What a member keeps for its next messages is nobody's: limits and counters are as if it were not there."""
    config = GroupConfig(memory_limit=8 * MIB, max_blocks=64)
    with contextlib.closing(transport.create_group(config)) as group:
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds)) as member:
            for size in (4096, 100_000, MIB):
                held = [group.alloc(size) for _ in range(6)]
                held.clear()
            stats = group.stats()
            assert stats.blocks_in_use == stats.bytes_in_use == 0 and stats.holders == ()
            assert member.alloc(8 * MIB).nbytes == 8 * MIB
            held = [group.alloc(1) for _ in range(64)]
            held.clear()
            blocks = [member.alloc(1) for _ in range(64)]
            with pytest.raises(PoolExhaustedError):
                group.alloc(1)
            assert len(blocks) == in_use(group) == 64
            blocks.clear()
            assert group.trim() > 0 and group.stats().bytes_backed == 0


def test_waiting_for_memory_ends_when_another_member_lets_go(transport: ShmTransport) -> None:
    config = GroupConfig(memory_limit=4 * MIB, max_blocks=16)
    with contextlib.closing(transport.create_group(config)) as group:
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds)) as member:
            queue, theirs = group.create_queue("q", 4), member.queue("q")
            for _ in range(3):
                queue.put(group.alloc(MIB))
            taken = [theirs.get(0) for _ in range(3)]
            with thread(taken.clear):
                assert group.alloc(4 * MIB, 20).nbytes == 4 * MIB


def test_released_blocks_return_to_who_made_them(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=64 * MIB))) as group:
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds)) as member:
            queue, theirs, seen = group.create_queue("q", 4), member.queue("q"), set()
            for _ in range(200):
                block = group.alloc(100_000)
                seen.add(block.array().ctypes.data)
                queue.put(block)
                assert theirs.get(0) is not None
            assert len(seen) <= 2
            assert group.stats().bytes_backed < MIB


def test_more_sizes_than_a_member_keeps_apart(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(GroupConfig(memory_limit=64 * MIB))) as group:
        for _ in range(3):
            for pages in range(1, 60):
                blocks = [filled(group, pages, pages * 4096) for _ in range(3)]
                assert all(int(block.array()[-1]) == pages for block in blocks)
        del blocks
        assert in_use(group) == 0
        assert group.alloc(64 * MIB).nbytes == 64 * MIB
