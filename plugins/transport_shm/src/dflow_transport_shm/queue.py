"""Queues and doorbells of a memory group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from dflow_core.errors import ClosedError, QueueFullError, UsageError
from dflow_core.message import Block
from dflow_core.spi.transport import Doorbell, Queue
from dflow_transport_shm._fast import QueueBase
from dflow_transport_shm.bindings import (
    E_BADREF,
    E_CLOSED,
    E_TIMEOUT,
    Handle,
    bell_drop,
    bell_ring,
    bell_take,
    bell_wait,
    fail,
    id_array,
    queue_close,
)
from dflow_transport_shm.block import Member
from dflow_transport_shm.waiting import Deadline, first_slice


class ShmQueue(QueueBase, Queue):
    """One queue as seen from one member; `put`, `get`, `level` and `take_dropped` are the extension module's.

    Args:
        member: The member, as the extension module knows it.
        handle: The same, as the bindings do.
        number: Number of the queue in the group.
        name: Its name.
        depth: Most blocks in it.
    """

    def __init__(self, member: Member, handle: Handle, number: int, name: str, depth: int) -> None:
        super().__init__(member, number)
        self._handle = handle
        self.name = name
        self.depth = depth

    def close(self) -> None:
        queue_close(self._handle, self.number)

    def is_of(self, handle: Handle) -> bool:
        """Whether this is a queue as that member sees it."""
        return self._handle is handle

    def _failed(self, code: int, timeout: float | None) -> NoReturn:
        if code == E_TIMEOUT:
            raise QueueFullError(f"queue {self.name!r} of {self.depth} stayed full for {timeout or 0:g} s")
        if code == E_CLOSED:
            raise ClosedError(f"queue {self.name!r} was closed")
        if code == E_BADREF:
            raise UsageError(
                f"queue {self.name!r} cannot send the block: it was sent or released already",
                hint="keep a reference with retain() before sending",
            )
        fail(code)

    def _foreign(self, block: Block) -> NoReturn:
        raise UsageError(
            f"queue {self.name!r} takes blocks of this member of its own group, not {block!r}",
            hint="allocate the block from the group the queue was taken from",
        )

    def __repr__(self) -> str:
        return f"<ShmQueue {self.name!r} depth {self.depth}>"


class ShmDoorbell(Doorbell):
    """A place where one thread waits for many queues."""

    def __init__(self, handle: Handle) -> None:
        self._bell = -1
        self._handle = handle
        self._bell = bell_take(handle)
        self._ids: tuple[list[int], list[int]] = ([], [])
        self._arrays = (id_array([]), id_array([]))

    def wait(self, readable: Sequence[Queue], writable: Sequence[Queue] = (), timeout: float | None = None) -> bool:
        ids = (_numbers(self._handle, readable), _numbers(self._handle, writable))
        if ids != self._ids:
            self._ids, self._arrays = ids, (id_array(ids[0]), id_array(ids[1]))
        r, w = self._arrays
        deadline = None
        wait_ns = first_slice(timeout)
        while True:
            code = bell_wait(self._handle, self._bell, r, len(ids[0]), w, len(ids[1]), wait_ns)
            if code:
                return True if code > 0 else fail(code)
            deadline = deadline or Deadline(timeout)
            wait_ns = deadline.next_slice()
            if not wait_ns:
                return False

    def ring(self) -> None:
        bell_ring(self._handle, self._bell)

    def __del__(self) -> None:
        if self._bell >= 0:
            bell_drop(self._handle, self._bell)


def _numbers(handle: Handle, queues: Sequence[Queue]) -> list[int]:
    numbers = []
    for queue in queues:
        if not isinstance(queue, ShmQueue) or not queue.is_of(handle):
            raise UsageError(f"a doorbell waits for queues of its own memory group, not {queue!r}")
        numbers.append(queue.number)
    return numbers
