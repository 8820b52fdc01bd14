"""A member's view of one shared region."""

from __future__ import annotations

import difflib
import os
import struct
from typing import NoReturn

import numpy as np

from dflow_core.errors import PoolExhaustedError, UsageError
from dflow_core.message import HEAD_SIZE, Block, copy_like
from dflow_core.spi.native_table import NATIVE_ABI, NativeTable
from dflow_core.spi.transport import GroupHandle, GroupStats, Holder, LostMessage, MemoryGroup, Overflow, QueueStats
from dflow_core.types import Array
from dflow_transport_shm import bindings as native
from dflow_transport_shm._fast import GroupBase, board_array
from dflow_transport_shm.block import Member, ShmBlock
from dflow_transport_shm.queue import ShmDoorbell, ShmQueue

SCHEME = "shm"
TOKEN = struct.Struct("<Q")

_OVERFLOW = {how: number for number, how in enumerate(Overflow)}
_SIZES = struct.Struct("<QI")
_SIZES_AT = 64
_IDENTITY_AT = 192
_NAMED = 6


class ShmGroup(GroupBase, MemoryGroup):
    """One member of a group; `alloc`, `owns`, `peek` and `alloc_like` are the extension module's.

    Args:
        handle: The member, as the bindings know it.
        group: Random number of the group.
    """

    def __init__(self, handle: native.Handle, group: int) -> None:
        self._member = Member(native.address_of(handle), handle)
        super().__init__(self._member)
        self._handle = handle
        self._group = group
        self._queues: dict[str, ShmQueue] = {}

    def _alloc_failed(self, code: int, size: int, timeout: float | None) -> NoReturn:
        if code in (native.E_TIMEOUT, native.E_TOO_BIG, native.E_SYSTEM):
            raise self._exhausted(size, code)
        native.fail(code)

    def _bad_size(self, size: int) -> NoReturn:
        raise UsageError(f"a block cannot have {size} bytes")

    def _copy_like(self, head: Block, array: Array, timeout: float | None) -> Block:
        return copy_like(head, array, lambda size: self.alloc(size, timeout))

    def _exhausted(self, size: int, code: int) -> PoolExhaustedError:
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
            f"no shared memory for {size} bytes{reason}: {stats.blocks_in_use} blocks with "
            f"{stats.bytes_in_use} of at most {stats.memory_limit} bytes are in use; {holders or 'nobody holds any'}",
            hint="raise memory_limit (or max_blocks), or keep fewer or smaller messages alive",
        )

    def create_queue(
        self, name: str, depth: int, overflow: Overflow = Overflow.BLOCK, max_age: float = 0.0
    ) -> ShmQueue:
        if not native.is_owner(self._handle):
            raise UsageError(f"queue {name!r} can be made only by the owner of the memory group")
        number = native.queue_create(self._handle, name, depth, _OVERFLOW[overflow], max_age)
        return self._queue_object(number, name)

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
            known = self._queues.setdefault(name, ShmQueue(self._member, self._handle, number, name, depth))
        return known

    def board(self, name: str, words: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return board_array(self._member, native.board(self._handle, name, words), words)

    def native_table(self) -> NativeTable:
        """The group as native code sees it.

        Queue numbers are `ShmQueue.number`; `ShmBlock.hand_over` turns a block object into a key, `adopt` a key into
        a block object.
        """
        return NativeTable(native.native_table(self._handle), NATIVE_ABI, self._member)

    def adopt(self, key: int) -> ShmBlock:
        """The block object for a key that native code hands over with its reference."""
        return self._member.adopt(key)

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
                block = self._member.adopt(found.key)
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
            queues=tuple(_queue_stats(q) for q in queues),
        )

    def trim(self) -> int:
        return native.trim(self._handle)

    def close(self) -> None:
        native.close(self._handle)

    def stop_at(self, where: native.StopAt, kill: bool = False, skip: int = 0) -> None:
        """For tests of crashes: stop (SIGSTOP) or kill this process when it gets to that place between two steps.

        Args:
            where: The place.
            kill: Kill it instead.
            skip: How often it passes the place before.
        """
        native.stop_at(self._handle, where, kill, skip)

    def __repr__(self) -> str:
        return f"<ShmGroup {self._group:016x} member {self.member_id()} of process {os.getpid()}>"


def _queue_stats(q: native.QueueInfo) -> QueueStats:
    counts = (q.sent, q.delivered, q.dropped, q.failed)
    return QueueStats(q.name, q.depth, q.level, *counts, q.oldest_age, q.blocked, q.waiting)


def _lost_message(block: ShmBlock, queue: str) -> LostMessage:
    """Head and aux section of a block; what does not fit into the block was never written whole, and is left out.

    A block nobody wrote a head into has none: what it holds besides the zeros of `alloc` is an older message's.
    """
    data = memoryview(block.array())
    head = bytes(data[:HEAD_SIZE]).ljust(HEAD_SIZE, b"\0")
    if not any(head[_IDENTITY_AT:]):
        head = bytes(HEAD_SIZE)
    body_size, aux_size = _SIZES.unpack_from(head, _SIZES_AT)
    at = HEAD_SIZE + body_size
    aux = bytes(data[at : at + aux_size]) if at + aux_size <= block.nbytes else b""
    data.release()
    return LostMessage(head, aux, queue)
