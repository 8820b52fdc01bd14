"""What the members of an in-process memory group share: memory, references, queues.

One lock and one condition guard everything. Blocks are given back by `__del__` at moments nobody chooses, perhaps by a
thread that holds the lock; so those go through a list that every operation empties (`Region.lock`).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from dflow_core.errors import PoolExhaustedError
from dflow_core.message import Bytes
from dflow_core.spi import GroupConfig, Holder, Overflow, QueueStats

NOTHING: Bytes = np.empty(0, np.uint8)
Board: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]

_ALIGN = 64
_PAGE = 4096
_SLICE = 0.05
"""Seconds a wait sleeps at most before it looks again, because a block given back by `__del__` may wake nobody."""


@dataclass(eq=False, slots=True)
class Owner:
    """Somebody who can hold blocks: a member, or a queue (pid 0)."""

    label: str
    pid: int
    number: int = 0
    blocks: int = 0
    bytes: int = 0


@dataclass(eq=False, slots=True)
class Cell:
    """Memory of one block, with how many references each owner has to it."""

    buffer: Bytes
    size: int
    holders: dict[Owner, int] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Line:
    """One queue as all members share it."""

    name: str
    depth: int
    overflow: Overflow
    max_age: float
    owner: Owner
    cells: deque[tuple[Cell, float]] = field(default_factory=deque)
    is_closed: bool = False
    sent: int = 0
    delivered: int = 0
    dropped: int = 0
    blocked: float = 0.0
    waiting: float = 0.0
    room: int = 0

    def __post_init__(self) -> None:
        self.room = 1 if self.overflow is Overflow.KEEP_LATEST else self.depth

    @property
    def blocks(self) -> bool:
        """Whether a full one makes producers wait."""
        return self.overflow in (Overflow.BLOCK, Overflow.MAX_AGE)

    def aged(self) -> bool:
        """Whether its oldest message is too old to be delivered."""
        limit = self.max_age if self.overflow is Overflow.MAX_AGE else 0.0
        return bool(limit and self.cells) and time.monotonic() - self.cells[0][1] > limit

    def stats(self) -> QueueStats:
        """Its counters."""
        age = time.monotonic() - self.cells[0][1] if self.cells else 0.0
        return QueueStats(
            self.name, self.depth, len(self.cells), self.sent, self.delivered, self.dropped, 0, age, self.blocked,
            self.waiting,
        )


class Region:
    """What the members of a group share."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.limit = config.memory_limit or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
        self.changed = threading.Condition(threading.Lock())
        self.lines: dict[str, Line] = {}
        self.members: dict[int, Owner] = {}
        self.in_use = self.blocks = self.backed = 0
        self._free: dict[int, list[Bytes]] = {}
        self._returned: deque[tuple[Cell, Owner]] = deque()
        self.owners: dict[Owner, None] = {}
        self.boards: dict[str, Board] = {}

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock; what was given back meanwhile is taken in before and after."""
        with self.changed:
            self._take_returned()
            yield
            self._take_returned()

    def give_back(self, cell: Cell, owner: Owner) -> None:
        """Drop a reference; callable at any moment, also by a thread that holds the lock."""
        self._returned.append((cell, owner))
        if self.changed.acquire(blocking=False):
            try:
                self._take_returned()
            finally:
                self.changed.release()

    def wait_until(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """With the lock held, wait for a condition; False when the limit passed."""
        end = None if timeout is None else time.monotonic() + timeout
        while not ready():
            left = _SLICE if end is None else min(_SLICE, end - time.monotonic())
            if left <= 0:
                return False
            self.changed.wait(left)
            self._take_returned()
        return True

    def alloc(self, size: int, owner: Owner, timeout: float | None) -> Cell:
        """With the lock held, a cell that the owner holds once."""
        capacity = -(-max(size, 1) // _ALIGN) * _ALIGN if size <= _PAGE else -(-size // _PAGE) * _PAGE
        most = self.config.max_blocks

        def fits() -> bool:
            return self.in_use + capacity <= self.limit and self.blocks < most

        if capacity > self.limit:
            raise self._too_large(size)
        if not self.wait_until(fits, timeout):
            raise self._exhausted(size)
        buffers = self._free.get(capacity)
        if buffers:
            buffer = buffers.pop()
        else:
            self.trim(self.limit - capacity)
            buffer = _aligned(capacity)
            self.backed += capacity
        cell = Cell(buffer, size)
        self.in_use += capacity
        self.blocks += 1
        self.hold(cell, owner)
        return cell

    def hold(self, cell: Cell, owner: Owner) -> None:
        """With the lock held, add a reference."""
        if owner not in cell.holders:
            owner.blocks += 1
            owner.bytes += cell.buffer.nbytes
            self.owners[owner] = None
        cell.holders[owner] = cell.holders.get(owner, 0) + 1

    def drop(self, cell: Cell, owner: Owner) -> None:
        """With the lock held, take a reference away; with the last one the memory is free."""
        cell.holders[owner] -= 1
        if cell.holders[owner]:
            return
        del cell.holders[owner]
        owner.blocks -= 1
        owner.bytes -= cell.buffer.nbytes
        if not owner.blocks:
            self.owners.pop(owner, None)
        if cell.holders:
            return
        buffer, cell.buffer = cell.buffer, NOTHING
        self.in_use -= buffer.nbytes
        self.blocks -= 1
        if sys.getrefcount(buffer) <= 2:  # this variable and the argument
            self._free.setdefault(buffer.nbytes, []).append(buffer)
        else:
            # A view somebody kept of a block he has sent: the memory stays his and is not used again.
            self.backed -= buffer.nbytes
        self.changed.notify_all()

    def trim(self, keep: int) -> int:
        """With the lock held, let free memory go until at most `keep` bytes are backed; returns the bytes."""
        before = self.backed
        for capacity in sorted(self._free, reverse=True):
            while self._free[capacity] and self.backed > keep:
                self._free[capacity].pop()
                self.backed -= capacity
        return before - self.backed

    def holders(self) -> tuple[Holder, ...]:
        """With the lock held, who holds blocks, largest first."""
        found = [Holder(o.label, o.pid, o.blocks, o.bytes) for o in self.owners]
        return tuple(sorted(found, key=lambda holder: -holder.bytes))

    def _take_returned(self) -> None:
        while self._returned:
            self.drop(*self._returned.popleft())

    def _too_large(self, size: int) -> PoolExhaustedError:
        error = PoolExhaustedError(
            f"a message of {size} bytes is larger than all the memory for messages, {self.limit} bytes",
            hint="raise memory_limit, or send it in parts",
        )
        error.never_fits = True
        return error

    def _exhausted(self, size: int) -> PoolExhaustedError:
        who = [
            f"{h.label}{f' (pid {h.pid})' if h.pid else ''} holds {h.blocks} blocks, {h.bytes} bytes"
            for h in self.holders()[:5]
        ]
        used = f"{self.in_use} of {self.limit} bytes and {self.blocks} of {self.config.max_blocks} blocks are in use"
        return PoolExhaustedError(
            f"no room for a block of {size} bytes: {used}" + "".join(f"\n  {line}" for line in who),
            hint="let results go, or raise the memory limit",
        )


def _aligned(size: int) -> Bytes:
    """A buffer that starts on a cache line."""
    whole = np.empty(size + _ALIGN, np.uint8)
    return whole[-whole.ctypes.data % _ALIGN :][:size]
