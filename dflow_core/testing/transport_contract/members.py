"""Contract of membership, seen from one process."""

from __future__ import annotations

import contextlib
import os

import pytest

from dflow_core.errors import ClosedError, UsageError
from dflow_core.message import HeapBlock
from dflow_core.spi import MemoryGroup, Queue, Transport
from dflow_core.testing.transport_contract.kit import SMALL, Contract, filled, in_use, value_of


class MemberContract(Contract):
    """Several members of one group, here in one process."""

    def test_members_share_queues(self, transport: Transport, group: MemoryGroup, queue: Queue) -> None:
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds, "second")) as member:
            assert member.member_id() != group.member_id()
            member.queue("work").put(filled(member, 3))
            assert [h.label for h in group.stats().holders] == ["queue 'work'"]
            block = queue.get(0)
            assert value_of(block) == 3
        assert value_of(block) == 3

    def test_block_belongs_to_the_member_that_holds_it(self, transport: Transport, group: MemoryGroup) -> None:
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds)) as member:
            block = group.alloc(1)
            assert group.owns(block)
            assert not member.owns(block)
            assert not group.owns(HeapBlock(1))

    def test_only_the_owner_makes_queues(self, transport: Transport, group: MemoryGroup) -> None:
        handle = group.handle()
        with contextlib.closing(transport.attach(handle, handle.fds)) as member, pytest.raises(UsageError):
            member.create_queue("mine", 1)

    def test_owner_leaving_closes_all_queues(self, transport: Transport) -> None:
        group = transport.create_group(SMALL)
        group.create_queue("work", 1).put(filled(group, 2))
        handle = group.handle()
        member = transport.attach(handle, handle.fds)
        queue = member.queue("work")
        group.close()
        assert value_of(queue.get(0)) == 2
        with pytest.raises(ClosedError):
            queue.get()
        member.close()

    def test_leaving_does_not_free_what_arrays_still_use(self, transport: Transport, group: MemoryGroup) -> None:
        handle = group.handle()
        member = transport.attach(handle, handle.fds, "leaver")
        array = filled(member, 6).array()
        member.close()
        assert [(h.label, h.blocks) for h in group.stats().holders] == [("leaver", 1)]
        assert int(array[0]) == 6
        del array
        assert in_use(group) == 0

    def test_places_of_members_that_left_are_used_again(self, transport: Transport, group: MemoryGroup) -> None:
        handle = group.handle()
        for _ in range(3 * SMALL.max_members):
            transport.attach(handle, handle.fds).close()
        members = [transport.attach(handle, handle.fds) for _ in range(SMALL.max_members - 1)]
        with pytest.raises(UsageError):
            transport.attach(handle, handle.fds)
        for member in members:
            member.close()

    def test_handle_of_something_else_is_refused(self, transport: Transport, group: MemoryGroup) -> None:
        handle = group.handle()
        with contextlib.closing(transport.create_group(SMALL)) as other, pytest.raises(UsageError):
            transport.attach(handle, other.handle().fds)

    def test_reclaim_refuses_the_living_and_ignores_strangers(self, group: MemoryGroup) -> None:
        with pytest.raises(UsageError):
            group.reclaim(os.getpid())
        assert group.reclaim(2**22 + 1) == []
