"""The in-process transport keeps the contract of transports."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.errors import ClosedError, QueueFullError, UsageError
from dflow_core.message import Block, HeapBlock, alloc_tensor, block_of
from dflow_core.spi import GroupConfig, GroupHandle, MemoryGroup, Overflow, Transport
from dflow_core.testing.transport_contract import (
    BlockContract,
    DoorbellContract,
    MemberContract,
    PlainContract,
    PolicyContract,
    QueueContract,
)

SMALL = GroupConfig(memory_limit=1 << 20, max_blocks=64, max_members=4, max_queues=2)


@pytest.fixture
def transport() -> Transport:
    return InprocTransport()


class TestBlocks(BlockContract):
    """Contract of blocks."""


class TestQueues(QueueContract):
    """Contract of queues."""


class TestPolicies(PolicyContract):
    """Contract of full queues, counters and boards."""


class TestPlain(PlainContract):
    """Contract of plain messages."""


class TestDoorbells(DoorbellContract):
    """Contract of doorbells."""


class TestMembers(MemberContract):
    """Contract of membership."""

    def test_handle_of_something_else_is_refused(self, transport: Transport, group: MemoryGroup) -> None:
        for handle in (GroupHandle("inproc", b"other"), GroupHandle("shm", group.handle().token)):
            with pytest.raises(UsageError, match="not of a memory group"):
                transport.attach(handle, ())
        with pytest.raises(UsageError):
            InprocTransport().attach(group.handle(), ())


def test_view_kept_of_a_sent_block_is_never_overwritten() -> None:
    """BC-016: the memory is not given to anybody else while a view of it lives."""
    with contextlib.closing(InprocTransport().create_group(SMALL)) as group:
        queue = group.create_queue("q", 1)
        block = group.alloc(4096)
        view = block.array(writable=True)
        view[:] = 1
        queue.put(block)
        del block
        assert queue.get(0) is not None
        gc.collect()
        for _ in range(4):
            group.alloc(4096).array(writable=True)[:] = 2
        assert set(view.tolist()) == {1}
        assert group.stats().blocks_in_use == 0


def test_tensor_filled_in_place_lies_in_a_block_of_the_group() -> None:
    with contextlib.closing(InprocTransport().create_group(SMALL)) as group:
        array = alloc_tensor((3, 4), np.dtype(np.float32), group.alloc)
        assert block_of(array) is not None
        assert group.stats().blocks_in_use == 1


def test_block_of_another_transport_is_refused() -> None:
    with contextlib.closing(InprocTransport().create_group(SMALL)) as group:
        queue = group.create_queue("q", 1)
        with pytest.raises(UsageError, match="another transport"):
            queue.put(HeapBlock(10))


def test_too_many_queues_are_refused() -> None:
    with contextlib.closing(InprocTransport().create_group(SMALL)) as group:
        group.create_queue("a", 1)
        group.create_queue("b", 1)
        with pytest.raises(UsageError, match="2 queues already"):
            group.create_queue("c", 1)


def test_waiting_member_is_woken_when_the_owner_leaves() -> None:
    transport = InprocTransport()
    group = transport.create_group(SMALL)
    group.create_queue("q", 1)
    member = transport.attach(group.handle(), ())
    ended = threading.Event()

    def wait() -> None:
        with contextlib.suppress(ClosedError):
            member.queue("q").get(20)
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    group.close()
    assert ended.wait(10)
    thread.join(10)
    member.close()


def test_memory_limit_is_chosen_from_the_machine() -> None:
    with contextlib.closing(InprocTransport().create_group(GroupConfig())) as group:
        assert group.stats().memory_limit > 1 << 26


def block_of_value(group: MemoryGroup, value: int) -> Block:
    block = group.alloc(8)
    block.array(writable=True)[:] = value
    return block


def values(blocks: Sequence[Block]) -> list[int]:
    return [int(block.array()[0]) for block in blocks]


@pytest.mark.parametrize(
    ("overflow", "kept", "dropped"),
    [
        (Overflow.DROP_OLDEST, [3, 4], [0, 1, 2]), (Overflow.DROP_NEWEST, [0, 1], [2, 3, 4]),
        (Overflow.KEEP_LATEST, [4], [0, 1, 2, 3]),
    ],
)
def test_what_gave_way_is_handed_to_who_displaced_it(
    overflow: Overflow, kept: list[int], dropped: list[int]
) -> None:
    with contextlib.closing(InprocTransport().create_group(GroupConfig(memory_limit=1 << 16))) as group:
        queue = group.create_queue("q", 2, overflow)
        for value in range(5):
            queue.put(block_of_value(group, value), 0)
        assert group.stats().blocks_in_use == 5
        assert values(group.queue("q").take_dropped()) == dropped
        assert queue.take_dropped() == []
        assert values([block for block in iter(lambda: queue.get(0), None)]) == kept
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.dropped) == (5, len(kept), len(dropped))
        assert group.stats().blocks_in_use == 0


def test_message_that_grew_too_old_is_dropped_by_who_comes_next() -> None:
    with contextlib.closing(InprocTransport().create_group(GroupConfig(memory_limit=1 << 16))) as group:
        queue = group.create_queue("q", 1, Overflow.MAX_AGE, 0.02)
        queue.put(block_of_value(group, 1), 0)
        with pytest.raises(QueueFullError):
            queue.put(block_of_value(group, 2), 0)
        queue.put(block_of_value(group, 3), 10)
        assert values(queue.take_dropped()) == [1]
        assert queue.get(0) is not None
        queue.put(block_of_value(group, 4), 10)
        while group.stats().queues[0].oldest_age <= 0.02:
            pass
        assert queue.get(0) is None
        assert values(queue.take_dropped()) == [4]
        assert group.stats().queues[0].blocked > 0


def test_board_is_shared_and_has_one_size() -> None:
    transport = InprocTransport()
    with contextlib.closing(transport.create_group(SMALL)) as group:
        with contextlib.closing(transport.attach(group.handle(), ())) as member:
            member.board("node", 4)[2] = 7
        assert group.board("node", 4).tolist() == [0, 0, 7, 0]
        with pytest.raises(UsageError, match="4 counters"):
            group.board("node", 5)
