"""What a link brings, until the gateway's thread takes it. Links call it, and are never kept waiting."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from dflow_core.errors import DflowError
from dflow_core.message import Block, HeapBlock
from dflow_core.spi import MemoryGroup


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that is complete; the payload, if it has one, is the block."""

    lane: int
    head: bytes
    block: Block | None = None


@dataclass(frozen=True, slots=True)
class End:
    """No frame comes after this; the error says why, if that is not in order."""

    error: DflowError | None


class Intake:
    """Takes frames. Thread-safe.

    Payloads are written into blocks of the group at once. Where there is no memory just then it is ordinary memory,
    also for what follows on that lane until the message has been copied: what follows must not hold the memory that
    the first one waits for.

    Args:
        group: Where blocks come from.
        ring: Wakes the gateway's thread.
    """

    def __init__(self, group: MemoryGroup, ring: Callable[[], None]) -> None:
        self._group, self._ring = group, ring
        self._lock = threading.Lock()
        self._half: dict[int, Block] = {}
        self._short: dict[int, int] = {}
        self._whole: list[Frame | End] = []
        self._is_closed = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing has arrived, not even a part of a message."""
        return not self._whole and not self._half

    def room_for(self, lane: int, size: int) -> memoryview:
        """Memory for the payload that comes next on a lane."""
        block = self._block(lane, size)
        with self._lock:
            if not self._is_closed:
                self._half[lane] = block
                if isinstance(block, HeapBlock):
                    self._short[lane] = self._short.get(lane, 0) + 1
        return memoryview(block.array(writable=True))

    def arrived(self, lane: int, head: bytes) -> None:
        """A frame is complete."""
        with self._lock:
            self._keep(Frame(lane, head, self._half.pop(lane, None)))

    def ended(self, error: DflowError | None) -> None:
        """Nothing comes any more; what came in part is let go."""
        with self._lock:
            self._half.clear()
            self._keep(End(error))

    def take(self) -> list[Frame | End]:
        """What has arrived since the last call, in its order."""
        if not self._whole:
            return []
        with self._lock:
            taken, self._whole = self._whole, []
            return taken

    def settled(self, lane: int) -> None:
        """What lay in ordinary memory has been copied, or was let go."""
        with self._lock:
            self._short[lane] -= 1

    def close(self) -> None:
        """Take nothing any more, and let go of what there is."""
        with self._lock:
            self._is_closed = True
            self._half.clear()
            self._whole.clear()

    def _block(self, lane: int, size: int) -> Block:
        if not self._is_closed and not self._short.get(lane):
            with contextlib.suppress(DflowError):
                return self._group.alloc(size, 0.0)
        return HeapBlock(size)

    def _keep(self, item: Frame | End) -> None:
        if self._is_closed:
            return
        is_first = not self._whole  # others lie there since the bell was rung
        self._whole.append(item)
        if is_first:
            self._ring()
