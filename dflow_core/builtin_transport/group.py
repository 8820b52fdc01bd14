"""Queues, doorbells and members of an in-process memory group."""

from __future__ import annotations

import difflib
import os
import time
import uuid
import weakref
from collections.abc import Sequence

import numpy as np

from dflow_core.builtin_transport.block import InprocBlock
from dflow_core.builtin_transport.region import Board, Line, Owner, Region
from dflow_core.errors import ClosedError, QueueFullError, UsageError
from dflow_core.message import Block
from dflow_core.spi import (
    Doorbell,
    GroupConfig,
    GroupHandle,
    GroupStats,
    LostMessage,
    MemoryGroup,
    Overflow,
    Queue,
    Transport,
)


class _InprocQueue(Queue):
    """A queue as one member sees it."""

    def __init__(self, group: _InprocGroup, line: Line) -> None:
        self._group, self._line = group, line
        self.name, self.depth = line.name, line.depth

    def put(self, block: Block, timeout: float | None = None) -> None:
        region, line = self._group.region(), self._line
        if not isinstance(block, InprocBlock):
            raise UsageError("the block belongs to another transport")
        cell, owner = block.hand_over(region)
        with region.lock():
            began = time.monotonic()
            writable = not line.blocks or region.wait_until(self.is_writable, timeout)
            line.blocked += time.monotonic() - began
            if not writable:
                raise QueueFullError(f"queue {self.name!r} stayed full ({self.depth} messages) for {timeout:g} s")
            if line.is_closed:
                raise ClosedError(f"queue {self.name!r} is closed")
            block.spend()
            line.sent += 1
            full = len(line.cells) >= line.room
            if full and line.overflow is Overflow.DROP_NEWEST:
                line.dropped += 1
                self._group.displace(self.name, InprocBlock(region, cell, owner))
                return
            if full:
                self._displace_oldest()
            line.cells.append((cell, time.monotonic()))
            region.hold(cell, line.owner)
            region.drop(cell, owner)
            region.changed.notify_all()

    def get(self, timeout: float | None = None) -> Block | None:
        region, line = self._group.region(), self._line
        with region.lock():
            began = time.monotonic()
            ready = region.wait_until(self._is_deliverable, timeout)
            line.waiting += time.monotonic() - began
            if not ready:
                return None
            if not line.cells:
                raise ClosedError(f"queue {self.name!r} is closed")
            cell, _ = line.cells.popleft()
            line.delivered += 1
            region.hold(cell, self._group.owner)
            region.drop(cell, line.owner)
            region.changed.notify_all()
        return InprocBlock(region, cell, self._group.owner)

    def take_dropped(self) -> list[Block]:
        with self._group.region().lock():
            return self._group.take_displaced(self.name)

    def level(self) -> int:
        with self._group.region().lock():
            return len(self._line.cells)

    def close(self) -> None:
        region = self._group.region()
        with region.lock():
            self._line.is_closed = True
            region.changed.notify_all()

    def is_readable(self) -> bool:
        """With the lock held: whether `get` has something to say."""
        return bool(self._line.cells) or self._line.is_closed

    def is_writable(self) -> bool:
        """With the lock held: whether `put` has something to say."""
        self._drop_aged()
        return not self._line.blocks or len(self._line.cells) < self._line.room or self._line.is_closed

    def _is_deliverable(self) -> bool:
        self._drop_aged()
        return self.is_readable()

    def _drop_aged(self) -> None:
        while self._line.aged():
            self._displace_oldest()

    def _displace_oldest(self) -> None:
        region, line, group = self._group.region(), self._line, self._group
        cell, _ = line.cells.popleft()
        line.dropped += 1
        region.hold(cell, group.owner)
        region.drop(cell, line.owner)
        group.displace(self.name, InprocBlock(region, cell, group.owner))
        region.changed.notify_all()


class _InprocDoorbell(Doorbell):
    def __init__(self, region: Region) -> None:
        self._region = region
        self._rung = False

    def wait(self, readable: Sequence[Queue], writable: Sequence[Queue] = (), timeout: float | None = None) -> bool:
        tests = [queue.is_readable for queue in readable if isinstance(queue, _InprocQueue)]
        tests += [queue.is_writable for queue in writable if isinstance(queue, _InprocQueue)]
        with self._region.lock():
            woken = self._region.wait_until(lambda: self._rung or any(test() for test in tests), timeout)
            self._rung = False
            return woken

    def ring(self) -> None:
        with self._region.lock():
            self._rung = True
            self._region.changed.notify_all()


class _InprocGroup(MemoryGroup):
    """One member of a region."""

    def __init__(self, region: Region, token: bytes, label: str, is_owner: bool) -> None:
        self._region, self._token, self._is_owner, self._is_closed = region, token, is_owner, False
        with region.lock():
            free = set(range(region.config.max_members)) - set(region.members)
            if not free:
                raise UsageError(f"the memory group has {region.config.max_members} members already")
            self.owner = Owner(label, os.getpid(), min(free))
            region.members[self.owner.number] = self.owner
        self._displaced: dict[str, list[Block]] = {}

    def displace(self, queue: str, block: Block) -> None:
        """With the lock held: keep a block that gave way until `take_dropped` asks for it."""
        self._displaced.setdefault(queue, []).append(block)

    def take_displaced(self, queue: str) -> list[Block]:
        """With the lock held: what was kept of a queue."""
        return self._displaced.pop(queue, [])

    def region(self) -> Region:
        """The shared region, as long as this member is in it."""
        if self._is_closed:
            raise ClosedError("this member has left the memory group")
        return self._region

    def alloc(self, size: int, timeout: float | None = 0.0) -> Block:
        region = self.region()
        with region.lock():
            cell = region.alloc(size, self.owner, timeout)
        return InprocBlock(region, cell, self.owner)

    def owns(self, block: Block) -> bool:
        return isinstance(block, InprocBlock) and block.belongs_to(self.owner)

    def create_queue(
        self, name: str, depth: int, overflow: Overflow = Overflow.BLOCK, max_age: float = 0.0
    ) -> Queue:
        region = self.region()
        if not self._is_owner:
            raise UsageError("only the owner of a memory group makes queues")
        if not name or "\0" in name or len(name.encode()) > 255:
            raise UsageError(f"{name!r} cannot be the name of a queue: 1 to 255 bytes of text without NUL")
        if depth < 1:
            raise UsageError(f"queue {name!r}: depth must be at least 1, got {depth}")
        if overflow is Overflow.MAX_AGE and not max_age > 0:
            raise UsageError(f"queue {name!r}: max_age must be more than 0 s, got {max_age}")
        with region.lock():
            if name in region.lines:
                raise UsageError(f"there is a queue {name!r} already")
            if len(region.lines) >= region.config.max_queues:
                raise UsageError(f"the memory group has {len(region.lines)} queues already, no more are allowed")
            line = region.lines[name] = Line(name, depth, overflow, max_age, Owner(f"queue {name!r}", 0))
        return _InprocQueue(self, line)

    def queue(self, name: str) -> Queue:
        with self.region().lock():
            line, names = self._region.lines.get(name), list(self._region.lines)
        if line is None:
            near = difflib.get_close_matches(name, names, 3)
            raise UsageError(f"there is no queue {name!r}", hint=f"near names: {', '.join(near)}" if near else None)
        return _InprocQueue(self, line)

    def board(self, name: str, words: int) -> Board:
        region = self.region()
        if words < 1 or not name or "\0" in name or len(name.encode()) > 255:
            raise UsageError(f"{name!r} with {words} words cannot be a board: a name of 1 to 255 bytes, 1 word or more")
        with region.lock():
            board = region.boards.setdefault(name, np.zeros(words, np.uint64))
        if len(board) != words:
            raise UsageError(f"there are {len(board)} counters of the name {name!r} already, not {words}")
        return board

    def doorbell(self) -> Doorbell:
        return _InprocDoorbell(self.region())

    def handle(self) -> GroupHandle:
        self.region()
        return GroupHandle("inproc", self._token)

    def member_id(self) -> int:
        return self.owner.number

    def reclaim(self, pid: int) -> list[LostMessage]:
        if pid == os.getpid():
            raise UsageError(f"process {pid} is alive")
        return []

    def stats(self) -> GroupStats:
        region = self.region()
        with region.lock():
            queues = tuple(line.stats() for line in region.lines.values())
            return GroupStats(
                region.blocks, region.in_use, region.backed, region.limit, region.holders(), queues
            )

    def trim(self) -> int:
        region = self.region()
        with region.lock():
            return region.trim(0)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._displaced.clear()
        with self._region.lock():
            self._region.members.pop(self.owner.number, None)
            if self._is_owner:
                for line in self._region.lines.values():
                    line.is_closed = True
            self._region.changed.notify_all()


class InprocTransport(Transport):
    """Memory groups within this process. Members find each other through the same transport object."""

    scheme = "inproc"

    def __init__(self) -> None:
        self._regions: weakref.WeakValueDictionary[bytes, Region] = weakref.WeakValueDictionary()

    def create_group(self, config: GroupConfig) -> MemoryGroup:
        region, token = Region(config), uuid.uuid4().bytes
        self._regions[token] = region
        return _InprocGroup(region, token, "owner", is_owner=True)

    def attach(self, handle: GroupHandle, fds: Sequence[int], label: str = "") -> MemoryGroup:
        region = self._regions.get(handle.token)
        if handle.scheme != self.scheme or fds or region is None:
            raise UsageError(
                "this handle is not of a memory group of this in-process transport",
                hint="other processes need a transport such as shm",
            )
        return _InprocGroup(region, handle.token, label or "member", is_owner=False)
