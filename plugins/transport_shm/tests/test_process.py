"""What the transport leaves in, and needs from, the process and the machine."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dflow_core.errors import ClosedError
from dflow_core.spi.transport import GroupConfig, MemoryGroup
from dflow_core.testing.transport_contract.kit import Child, filled, in_use, value_of
from dflow_transport_shm import ShmTransport

CONFIG = GroupConfig(memory_limit=16 << 20)


def footprint() -> tuple[int, int, int]:
    """Descriptors, mappings of groups, threads of this process."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return len(os.listdir("/proc/self/fd")), maps.count("memfd:dflow"), threading.active_count()


def in_child(work) -> int:
    """Run `work()` in a forked process that never joins a group; returns its exit code."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def test_closed_groups_leave_nothing_in_the_process(transport: ShmTransport) -> None:
    """BC-015."""
    gc.collect()
    before = footprint()
    for _ in range(50):
        with contextlib.closing(transport.create_group(CONFIG)) as group:
            handle = group.handle()
            member = transport.attach(handle, handle.fds)
            queue = group.create_queue("q", 2)
            bell = group.doorbell()
            queue.put(filled(group, 1))
            assert bell.wait([queue], timeout=0)
            assert value_of(member.queue("q").get()) == 1
            member.close()
    del group, member, queue, bell
    gc.collect()
    assert footprint() == before


def test_group_nobody_closed_goes_with_its_last_object(transport: ShmTransport) -> None:
    gc.collect()
    before = footprint()
    queue = transport.create_group(CONFIG).create_queue("q", 1)
    assert queue.level() == 0
    del queue
    gc.collect()
    assert footprint() == before


def test_view_keeps_only_the_mapping_alive(transport: ShmTransport) -> None:
    """BC-016."""
    gc.collect()
    before = footprint()
    group = transport.create_group(CONFIG)
    array = filled(group, 5).array()
    group.close()
    del group
    gc.collect()
    assert int(array.sum()) == 500
    assert footprint()[1] == before[1] + 1
    del array
    assert footprint() == before


def test_forked_child_cannot_use_its_parents_membership(transport: ShmTransport) -> None:
    """BC-090."""
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue = group.create_queue("q", 2)
        block = filled(group, 4)
        queue.put(filled(group, 6))

        def misuse() -> None:
            for call in (lambda: group.alloc(1), lambda: queue.get(0), lambda: queue.put(block), block.retain):
                with pytest.raises(ClosedError, match="forked"):
                    call()
            assert value_of(block) == 4

        assert in_child(misuse) == 0
        assert value_of(queue.get(0)) == 6
        assert value_of(block) == 4


def test_garbage_of_a_forked_child_releases_nothing(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        blocks = [filled(group, 4) for _ in range(5)]

        def collect() -> None:
            blocks.clear()
            gc.collect()
            group.close()

        assert in_child(collect) == 0
        assert in_use(group) == 5
        assert {value_of(block) for block in blocks} == {4}


def test_forked_child_can_attach(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue = group.create_queue("q", 1)
        child = Child(transport, group, lambda member: member.queue("q").put(filled(member, 8)))
        assert child.join() == 0
        assert value_of(queue.get(0)) == 8


class Interrupt(Exception):
    pass


@pytest.mark.parametrize("what", ["get", "put", "alloc", "doorbell"])
def test_signal_interrupts_a_wait_without_limit(transport: ShmTransport, what: str) -> None:
    def handler(*_: object) -> None:
        raise Interrupt

    with contextlib.closing(transport.create_group(CONFIG)) as group:
        queue, full = group.create_queue("q", 1), group.create_queue("full", 1)
        full.put(group.alloc(15 << 20))
        spare, bell = group.alloc(1), group.doorbell()
        waits = {
            "get": queue.get,
            "put": lambda: full.put(spare),
            "alloc": lambda: group.alloc(8 << 20, None),
            "doorbell": lambda: bell.wait([queue]),
        }
        old = signal.signal(signal.SIGALRM, handler)
        try:
            start = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupt):
                waits[what]()
            assert time.monotonic() - start < 5
        finally:
            signal.signal(signal.SIGALRM, old)
        assert spare.nbytes == 1


def test_closing_the_group_ends_waits_of_other_threads(transport: ShmTransport) -> None:
    group = transport.create_group(CONFIG)
    queue = group.create_queue("q", 1)
    ended = threading.Event()

    def wait() -> None:
        with contextlib.suppress(ClosedError):
            queue.get()
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    group.close()
    assert ended.wait(10)
    thread.join()


BARE = """
import os, sys
if sys.argv[1] == "stranger":
    os.setgroups([]); os.setgid(54321); os.setuid(54321)
from dflow_core.spi.transport import GroupConfig, MemoryGroup
from dflow_transport_shm import ShmTransport
group = ShmTransport().create_group(GroupConfig(memory_limit=300 << 20))
queue = group.create_queue("q", 2)
block = group.alloc(256 << 20)
block.array(writable=True)[-1] = 3
queue.put(block)
assert queue.get().array()[-1] == 3
group.close()
print("fine")
"""


@pytest.mark.parametrize("user", ["same", "stranger"])
def test_needs_no_home_no_user_name_and_no_place_to_write(user: str) -> None:
    """BC-008: 256 MiB in a group, however small /dev/shm is, without any file."""
    if user == "stranger" and os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    shm = Path("/dev/shm")
    before = sorted(shm.iterdir()) if shm.is_dir() else []
    env = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/none"}
    command = [sys.executable, "-c", BARE, user]
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=50)
    if user == "stranger" and ("Permission denied" in done.stderr or "No module named" in done.stderr):
        pytest.skip("another user cannot read the packages here")
    assert done.stdout == "fine\n", done.stderr
    assert (sorted(shm.iterdir()) if shm.is_dir() else []) == before


def test_group_of_other_threads_is_used_by_many(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:

        def churn() -> None:
            for _ in range(300):
                blocks = [filled(group, 1, size) for size in (10, 10_000, 100_000)]
                assert all(value_of(block.retain()) == 1 for block in blocks)

        threads = [threading.Thread(target=churn) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert in_use(group) == 0


def test_process_that_ended_without_leaving_is_reclaimed(transport: ShmTransport) -> None:
    with contextlib.closing(transport.create_group(CONFIG)) as group:

        def die_holding(member: MemoryGroup) -> None:
            held = member.alloc(5)
            os._exit(0 if held.nbytes == 5 else 1)

        child = Child(transport, group, die_holding)
        assert child.join() == 0
        assert [holder.pid for holder in group.stats().holders] == [child.pid]
        assert group.reclaim(child.pid) == []
        assert group.stats().holders == ()


