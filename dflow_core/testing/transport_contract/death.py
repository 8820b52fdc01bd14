"""Contract of what happens when processes are killed."""

from __future__ import annotations

import signal
from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.errors import UsageError
from dflow_core.message import Aux, ErrorInfo, FlowMsg, MsgInfo
from dflow_core.spi import LostMessage, MemoryGroup, Overflow, Queue, Transport
from dflow_core.testing.transport_contract.kit import (
    Child,
    Contract,
    adds_up,
    filled,
    hold_until_killed,
    in_use,
    message,
    trans_id,
    value_of,
)
from dflow_core.testing.waiting import wait_until


class DeathContract(Contract):
    """Processes that are killed."""

    def test_dead_consumer_gives_back_what_it_held(self, transport: Transport, group: MemoryGroup) -> None:
        """BC-004."""
        queue = group.create_queue("in", 16)
        for i in range(8):
            queue.put(message(group, i))

        def hold(member: MemoryGroup) -> None:
            held = [member.queue("in").get(10) for _ in range(8)]
            member.queue("done").put(member.alloc(1))
            signal.pause()
            del held

        done = group.create_queue("done", 1)
        child = Child(transport, group, hold)
        assert done.get(20) is not None
        assert [(h.label, h.pid, h.blocks) for h in group.stats().holders] == [("child", child.pid, 8)]
        with pytest.raises(UsageError):
            group.reclaim(child.pid)
        child.kill()
        lost = group.reclaim(child.pid)
        assert sorted(trans_id(message) for message in lost) == list(range(8))
        assert {message.queue for message in lost} == {"in"}
        assert in_use(group) == 0
        assert group.reclaim(child.pid) == []

    def test_lost_message_keeps_head_and_aux(self, transport: Transport, group: MemoryGroup, queue: Queue) -> None:
        sent = FlowMsg(MsgInfo(trans_id=77), np.arange(1000, dtype=np.uint8), Aux(error=ErrorInfo("node", "bad")))
        block = group.alloc(sent.wire_size)
        sent.write_to(block)
        queue.put(block)
        child = Child(transport, group, lambda member: hold_until_killed(member.queue("work").get(10)))
        wait_until(lambda: queue.level() == 0)
        child.kill()
        (lost,) = group.reclaim(child.pid)
        assert MsgInfo.unpack(lost.head)[0].trans_id == 77
        assert Aux.unpack(lost.aux) == sent.aux

    def test_head_that_lies_about_its_size_is_harmless(self, transport: Transport, group: MemoryGroup) -> None:
        queue = group.create_queue("in", 2)
        queue.put(filled(group, 255, 300))
        queue.put(filled(group, 255, 20))
        child = Child(transport, group, lambda member: hold_until_killed([member.queue("in").get(10) for _ in "ab"]))
        wait_until(lambda: queue.level() == 0)
        child.kill()
        assert [(len(message.head), message.aux) for message in group.reclaim(child.pid)] == [(256, b"")] * 2

    def test_blocks_never_sent_are_freed_silently(self, transport: Transport, group: MemoryGroup) -> None:
        child = Child(transport, group, lambda member: hold_until_killed([member.alloc(5000) for _ in range(10)]))
        wait_until(lambda: in_use(group) == 10)
        child.kill()
        assert group.reclaim(child.pid) == []
        assert in_use(group) == 0

    def test_message_sent_by_the_dead_still_arrives(self, transport: Transport, group: MemoryGroup) -> None:
        queue = group.create_queue("out", 4)
        child = Child(transport, group, lambda member: member.queue("out").put(filled(member, 9)))
        assert child.join() == 0
        assert group.reclaim(child.pid) == []
        assert value_of(queue.get(0)) == 9

    def test_shared_message_is_lost_once_and_lives_on_with_others(
        self, transport: Transport, group: MemoryGroup, queue: Queue
    ) -> None:
        block = message(group, 5)
        kept = block.retain()
        queue.put(block)

        def hold(member: MemoryGroup) -> None:
            got = member.queue("work").get(10)
            assert got is not None
            hold_until_killed([got, got.retain(), got.retain()])

        child = Child(transport, group, hold)
        wait_until(lambda: [h.label for h in group.stats().holders].count("child") == 1)
        child.kill()
        assert [trans_id(lost) for lost in group.reclaim(child.pid)] == [5]
        assert in_use(group) == 1
        assert trans_id(LostMessage(bytes(kept.array()[:256]), b"", "")) == 5

    def test_waiting_consumer_that_dies_strands_no_message(self, transport: Transport, group: MemoryGroup) -> None:
        queue = group.create_queue("in", 4)
        for i in range(10):
            child = Child(transport, group, lambda member: hold_until_killed(member.queue("in").get()))
            queue.put(message(group, i))
            child.kill()
            lost = [trans_id(m) for m in group.reclaim(child.pid)]
            left = [trans_id(LostMessage(bytes(b.array()[:256]), b"", "")) for b in iter(lambda: queue.get(0), None)]
            assert lost + left == [i]
        assert in_use(group) == 0

    def test_displaced_message_of_a_dead_member_is_lost(self, transport: Transport, group: MemoryGroup) -> None:
        queue = group.create_queue("q", 1, Overflow.DROP_OLDEST)
        for i in range(2):
            queue.put(message(group, i))
        assert len(queue.take_dropped()) == 1
        member = _killed_after(transport, group, lambda other: other.queue("q").put(message(other, 2)))
        assert [(trans_id(lost), lost.queue) for lost in group.reclaim(member)] == [(1, "q")]
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.dropped, stats.failed, stats.level) == (3, 0, 2, 0, 1)
        assert queue.get(0) is not None and in_use(group) == 0 and adds_up(group)

    def test_messages_of_a_dead_member_count_as_failed(self, transport: Transport, group: MemoryGroup) -> None:
        queue = group.create_queue("q", 4)
        for i in range(4):
            queue.put(message(group, i))
        member = _killed_after(transport, group, lambda other: [other.queue("q").get(10) for _ in range(3)])
        assert len(group.reclaim(member)) == 3
        (stats,) = group.stats().queues
        assert (stats.sent, stats.delivered, stats.failed, stats.level) == (4, 0, 3, 1)


def _killed_after(transport: Transport, group: MemoryGroup, work: Callable[[MemoryGroup], object]) -> int:
    """A process that does `work(member)`, keeps the result and is killed; its pid."""
    done = group.board("done", 1)
    done[0] = 0

    def run(member: MemoryGroup) -> None:
        kept = work(member)
        member.board("done", 1)[0] = 1
        hold_until_killed([kept])

    child = Child(transport, group, run)
    wait_until(lambda: bool(done[0]))
    child.kill()
    return child.pid
