"""A member's view of one shared region."""

from __future__ import annotations

import difflib
import os
import struct

from dflow_core.errors import PoolExhaustedError, UsageError
from dflow_core.message import HEAD_SIZE, Block
from dflow_core.spi.transport import GroupHandle, GroupStats, Holder, LostMessage, MemoryGroup, Overflow, QueueStats
from dflow_transport_shm import bindings as native
from dflow_transport_shm.bindings import alloc
from dflow_transport_shm.block import Membership, ShmBlock, new_block
from dflow_transport_shm.queue import ShmDoorbell, ShmQueue
from dflow_transport_shm.waiting import SLICE, Deadline, first_slice

SCHEME = "shm"
TOKEN = struct.Struct("<Q")

_OVERFLOW = {Overflow.BLOCK: 0, Overflow.DROP_OLDEST: 1, Overflow.DROP_NEWEST: 2}
_SIZES = struct.Struct("<QI")
_SIZES_AT = 64
_NAMED = 6


class ShmGroup(MemoryGroup):
    """One member of a group.

    Args:
        handle: The member, as the bindings know it.
        group: Random number of the group.
    """

    def __init__(self, handle: native.Handle, group: int) -> None:
        self._handle = handle
        self._group = group
        self._member = Membership(handle)
        self._queues: dict[str, ShmQueue] = {}

    def alloc(self, size: int, timeout: float | None = 0.0) -> ShmBlock:
        try:
            key = alloc(self._handle, size, 0 if timeout == 0 else SLICE if timeout is None else first_slice(timeout))
        except OverflowError:
            raise UsageError(f"a block cannot have {size} bytes") from None
        if key < 0:
            key = self._alloc_again(size, timeout, key)
        block = new_block(ShmBlock)
        block.member = self._member
        block.key = key
        return block

    def owns(self, block: Block) -> bool:
        return type(block) is ShmBlock and block.member is self._member

    def _alloc_again(self, size: int, timeout: float | None, key: int) -> int:
        deadline = Deadline(timeout)
        while key == native.E_TIMEOUT and (wait_ns := deadline.next_slice()):
            key = alloc(self._handle, size, wait_ns)
        if key >= 0:
            return key
        if key in (native.E_TIMEOUT, native.E_TOO_BIG, native.E_SYSTEM):
            raise self._exhausted(size, timeout, key)
        native.fail(key)

    def _exhausted(self, size: int, timeout: float | None, code: int) -> PoolExhaustedError:
        reason = f": {native.last_error()}" if code == native.E_SYSTEM else ""
        stats = self.stats()
        if code == native.E_TOO_BIG:
            error = PoolExhaustedError(
                f"a message of {size} bytes is larger than all the memory for messages, {stats.memory_limit} bytes",
                hint="raise memory_limit, or send it in parts",
            )
            error.never_fits = True
            return error
        holders = "; ".join(
            f"{h.label}{f' (pid {h.pid})' if h.pid else ''} holds {h.blocks} blocks, {h.bytes} bytes"
            for h in stats.holders[:_NAMED]
        )
        return PoolExhaustedError(
            f"no shared memory for {size} bytes within {timeout or 0:g} s{reason}: {stats.blocks_in_use} blocks with "
            f"{stats.bytes_in_use} of at most {stats.memory_limit} bytes are in use; {holders or 'nobody holds any'}",
            hint="raise memory_limit (or max_blocks), or keep fewer or smaller messages alive",
        )

    def create_queue(
        self, name: str, depth: int, overflow: Overflow = Overflow.BLOCK, max_age: float = 0.0
    ) -> ShmQueue:
        if not native.is_owner(self._handle):
            raise UsageError(f"queue {name!r} can be made only by the owner of the memory group")
        return self._queue_object(native.queue_create(self._handle, name, depth, _OVERFLOW[overflow]), name)

    def queue(self, name: str) -> ShmQueue:
        number = native.queue_find(self._handle, name)
        if number == native.E_MISSING:
            names = [queue.name for queue in self.stats().queues]
            near = difflib.get_close_matches(name, names, 5, 0.5) or names[:5]
            raise UsageError(
                f"the memory group has no queue {name!r}",
                hint="it has " + ", ".join(repr(n) for n in near) if near else "it has no queues at all",
            )
        return self._queue_object(number, name)

    def _queue_object(self, number: int, name: str) -> ShmQueue:
        known = self._queues.get(name)
        if known is None:
            depth = native.queue_info(self._handle, number).depth
            known = self._queues.setdefault(name, ShmQueue(self._member, number, name, depth))
        return known

    def doorbell(self) -> ShmDoorbell:
        return ShmDoorbell(self._handle)

    def handle(self) -> GroupHandle:
        return GroupHandle(SCHEME, TOKEN.pack(self._group), (native.fd_of(self._handle),))

    def member_id(self) -> int:
        return native.member_of(self._handle)

    def reclaim(self, pid: int) -> list[LostMessage]:
        lost: list[LostMessage] = []
        while (member := native.reclaim_find(self._handle, pid)) != native.E_MISSING:
            cursor = 0
            while (found := native.reclaim_next(self._handle, member, cursor)) is not None:
                cursor = found.cursor
                name = native.queue_info(self._handle, found.queue).name if found.queue >= 0 else ""
                block = new_block(ShmBlock)
                block.member, block.key = self._member, found.key
                lost.append(_lost_message(block, name))
                block.release()
        return lost

    def stats(self) -> GroupStats:
        total = native.totals(self._handle)
        queues = [native.queue_info(self._handle, number) for number in range(total.queues)]
        members = [native.member_use(self._handle, number) for number in range(total.members)]
        holders = [Holder(m.label, m.pid, m.blocks, m.bytes) for m in members if m is not None and m.blocks]
        holders += [Holder(f"queue {q.name!r}", 0, q.level, q.bytes) for q in queues if q.level]
        holders.sort(key=lambda holder: holder.bytes, reverse=True)
        return GroupStats(
            blocks_in_use=total.blocks_in_use,
            bytes_in_use=total.bytes_in_use,
            bytes_backed=total.bytes_backed,
            memory_limit=total.memory_limit,
            holders=tuple(holders),
            queues=tuple(QueueStats(q.name, q.depth, q.level, q.sent, q.delivered, q.dropped) for q in queues),
        )

    def trim(self) -> int:
        return native.trim(self._handle)

    def close(self) -> None:
        native.close(self._handle)

    def stop_at(self, where: native.StopAt) -> None:
        """For tests of crashes: stop this process (SIGSTOP) the next time it gets to that place inside the lock."""
        native.stop_at(self._handle, where)

    def __repr__(self) -> str:
        return f"<ShmGroup {self._group:016x} member {self.member_id()} of process {os.getpid()}>"


def _lost_message(block: ShmBlock, queue: str) -> LostMessage:
    """Head and aux section of a block; what does not fit into the block was never written whole, and is left out."""
    data = memoryview(block.array())
    head = bytes(data[:HEAD_SIZE]).ljust(HEAD_SIZE, b"\0")
    body_size, aux_size = _SIZES.unpack_from(head, _SIZES_AT)
    at = HEAD_SIZE + body_size
    aux = bytes(data[at : at + aux_size]) if at + aux_size <= block.nbytes else b""
    data.release()
    return LostMessage(head, aux, queue)
