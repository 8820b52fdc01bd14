"""Results that stay in device memory on their way to the next model of the same process.

The message carries a mark in place of the values: a number that only this process knows, behind bytes that no result
begins with. The worker that is given the message finds the device memory by it; the host's memory is never filled. A
mark that this process does not know was made by a former one, whose device memory is gone: that is an error of its
transaction.

Messages of one output arrive in order at one reader, so one that was passed over was lost on the way, and its memory
is taken back when a later one arrives.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import RunError
from dflow_core.types import Array
from dflow_pne_npu.bindings import Acl, Context, DeviceBuffer

_MAGIC = bytes.fromhex("d1f0e5a4c3b297886a5b4c3d2e1f0918")
_MARK = len(_MAGIC) + 8
MOST = 32
"""Results of one output that may be on their way; those beyond go through host memory."""


class Pool:
    """Device memory for the results of one output, allocated when it is needed and used again.

    Args:
        acl: The library.
        context: The producer's context.
        size: Bytes of a result.
    """

    def __init__(self, acl: Acl, context: Context, size: int) -> None:
        self._acl = acl
        self.context = context
        self._size = size
        self._free: list[DeviceBuffer] = []
        self._given = 0
        self._is_closed = False
        self._lock = threading.Lock()

    def take(self) -> DeviceBuffer | None:
        """A buffer; None if as many as may be are on their way.

        Raises:
            AclError: the device has no memory left.
        """
        with self._lock:
            if self._free:
                return self._free.pop()
            if self._given >= MOST:
                return None
            self._given += 1
        return DeviceBuffer(self._acl, self._size)

    def give_back(self, buffer: DeviceBuffer) -> None:
        """Let a buffer be used again; free it if the producer is gone."""
        with self._lock:
            if not self._is_closed:
                self._free.append(buffer)
                return
        buffer.close()

    def close(self) -> None:
        """Free what is not on its way; the rest is freed when it comes back."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for buffer in free:
            buffer.close()


@dataclass(frozen=True)
class Resident:
    """A result in device memory.

    Args:
        number: What its mark says; later results have larger ones.
        buffer: The memory.
        pool: Where it goes when it has been used.
    """

    number: int
    buffer: DeviceBuffer
    pool: Pool

    def release(self) -> None:
        """It has been used."""
        self.pool.give_back(self.buffer)


class ResidentStore:
    """The results on their way inside one process. Used from several threads."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._ways: dict[Pool, deque[Resident]] = {}
        self._found: dict[int, Resident] = {}

    def put(self, target: Array, buffer: DeviceBuffer, pool: Pool) -> None:
        """Let an array that is sent stand for a result.

        Args:
            target: The array, of at least `smallest` bytes; its first bytes become the mark.
            buffer: Where the result is.
            pool: Where the buffer is from.
        """
        with self._lock:
            resident = Resident(next(self._numbers), buffer, pool)
            self._ways.setdefault(pool, deque()).append(resident)
            self._found[resident.number] = resident
        mark = np.frombuffer(_MAGIC + resident.number.to_bytes(8, "little"), np.uint8)
        target.reshape(-1).view(np.uint8)[:_MARK] = mark

    def find(self, array: Array) -> Resident | None:
        """The result an array stands for, which the caller has to release; None if it is an ordinary one.

        Raises:
            RunError: the result went with a former process.
        """
        if array.nbytes < _MARK or not array.flags.c_contiguous:
            return None
        head = array.reshape(-1).view(np.uint8)[:_MARK].tobytes()
        if not head.startswith(_MAGIC):
            return None
        number = int.from_bytes(head[len(_MAGIC):], "little")
        with self._lock:
            resident = self._found.pop(number, None)
            lost = [] if resident is None else self._passed_over(resident)
        for one in lost:
            one.release()
        if resident is None:
            raise RunError("the input was in the memory of a device that a former process used, and went with it",
                           hint="feed the transaction again")
        return resident

    def drop(self, pool: Pool) -> None:
        """Take back what is on its way from a producer that ends; its reader ends, too, or is told an error."""
        with self._lock:
            rest = self._ways.pop(pool, deque())
            for one in rest:
                self._found.pop(one.number, None)
        for one in rest:
            one.release()

    def _passed_over(self, resident: Resident) -> list[Resident]:
        way, lost = self._ways[resident.pool], []
        while way and way[0].number < resident.number:
            one = way.popleft()
            self._found.pop(one.number, None)
            lost.append(one)
        if way and way[0] is resident:
            way.popleft()
        return lost


def smallest() -> int:
    """Bytes a result must have to be able to stay on the device."""
    return _MARK
