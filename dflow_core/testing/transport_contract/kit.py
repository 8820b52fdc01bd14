"""What the contract tests of transports share: a small group, threads and processes beside the test."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator

import pytest

from dflow_core.message import Block, FlowMsg, MsgInfo
from dflow_core.spi import GroupConfig, LostMessage, MemoryGroup, Queue, Transport

MIB = 1 << 20
SMALL = GroupConfig(memory_limit=8 * MIB, max_blocks=256, max_members=8, max_queues=32)


def filled(group: MemoryGroup, value: int, size: int = 100) -> Block:
    """A block whose bytes are all `value`."""
    block = group.alloc(size)
    block.array(writable=True)[:] = value
    return block


def value_of(block: Block | None) -> int:
    """First byte of a block that must be there."""
    assert block is not None
    return int(block.array()[0])


def in_use(group: MemoryGroup) -> int:
    """Blocks somebody holds."""
    return group.stats().blocks_in_use


def adds_up(group: MemoryGroup) -> bool:
    """Whether the counters of every queue agree; holds at every idle moment."""
    return all(q.sent == q.delivered + q.dropped + q.failed + q.level for q in group.stats().queues)


@contextlib.contextmanager
def thread(work: Callable[[], object]) -> Iterator[None]:
    """Run `work` in a thread beside the body; its exception comes up at the end."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    yield
    runner.join(20)
    assert not runner.is_alive(), "the thread is stuck"
    if failures:
        raise failures[0]


class Child:
    """A forked process that joins a group, runs `work(member)` and ends without clean-up, as a killed one would."""

    def __init__(self, transport: Transport, group: MemoryGroup, work: Callable[[MemoryGroup], object]) -> None:
        handle = group.handle()
        with warnings.catch_warnings():
            # The child uses none of the threads that other libraries run here.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()  # noqa: TID251 - a child that shares nothing but the group is the point
        if self.pid:
            return
        code = 1
        try:
            work(transport.attach(handle, handle.fds, "child"))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def kill(self) -> None:
        """SIGKILL it and collect it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def join(self) -> int:
        """Wait for its end; returns its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def wait_stopped(self) -> None:
        """Wait until it has stopped itself."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"ended with {status} instead of stopping"


def message(group: MemoryGroup, trans_id: int) -> Block:
    """A block with a whole message without payload in it."""
    sent = FlowMsg(MsgInfo(trans_id=trans_id))
    block = group.alloc(sent.wire_size)
    sent.write_to(block)
    return block


def trans_id(lost: LostMessage) -> int:
    """Transaction of a lost message."""
    return MsgInfo.unpack(lost.head)[0].trans_id


def hold_until_killed(held: object) -> None:
    """Keep `held` until the process is killed."""
    while held is not None:
        signal.pause()


class Contract:
    """Base: a small group, which must be empty at the end."""

    pytestmark = pytest.mark.timeout(60)

    @pytest.fixture
    def group(self, transport: Transport) -> Iterator[MemoryGroup]:
        with contextlib.closing(transport.create_group(SMALL)) as group:
            yield group

    @pytest.fixture
    def queue(self, group: MemoryGroup) -> Queue:
        return group.create_queue("work", 4)
