"""Queues and doorbells of a memory group."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_core.errors import ClosedError, QueueFullError, UsageError
from dflow_core.message import Block
from dflow_core.spi.transport import Doorbell, Queue
from dflow_transport_shm.bindings import (
    E_CLOSED,
    E_TIMEOUT,
    Handle,
    bell_drop,
    bell_ring,
    bell_take,
    bell_wait,
    fail,
    get,
    id_array,
    level,
    put,
    queue_close,
)
from dflow_transport_shm.block import Membership, ShmBlock, new_block
from dflow_transport_shm.waiting import SLICE, Deadline, first_slice


class ShmQueue(Queue):
    """One queue as seen from one member.

    Args:
        member: The member.
        number: Number of the queue in the group.
        name: Its name.
        depth: Most blocks in it.
    """

    def __init__(self, member: Membership, number: int, name: str, depth: int) -> None:
        self._member = member
        self._handle = member.handle
        self.number = number
        self.name = name
        self.depth = depth

    def put(self, block: Block, timeout: float | None = None) -> None:
        # Subclasses are none of ours either: the check is one comparison, as it is made for every message.
        if type(block) is not ShmBlock or block.member is not self._member:
            raise UsageError(
                f"queue {self.name!r} takes blocks of this member of its own group, not {block!r}",
                hint="allocate the block from the group the queue was taken from",
            )
        code = put(self._handle, self.number, block.key, SLICE if timeout is None else first_slice(timeout))
        if code < 0:
            self._put_again(block, timeout, code)
        block.key = -1

    def _put_again(self, block: ShmBlock, timeout: float | None, code: int) -> None:
        deadline = Deadline(timeout)
        while code == E_TIMEOUT and (wait_ns := deadline.next_slice()):
            code = put(self._handle, self.number, block.key, wait_ns)
        if code == E_TIMEOUT:
            raise QueueFullError(f"queue {self.name!r} of {self.depth} stayed full for {timeout or 0:g} s")
        if code < 0:
            self._fail(code)

    def get(self, timeout: float | None = None) -> ShmBlock | None:
        key = get(self._handle, self.number, SLICE if timeout is None else first_slice(timeout))
        if key < 0:
            key = self._get_again(timeout, key)
            if key < 0:
                return None
        block = new_block(ShmBlock)
        block.member = self._member
        block.key = key
        return block

    def _get_again(self, timeout: float | None, key: int) -> int:
        deadline = Deadline(timeout)
        while key == E_TIMEOUT and (wait_ns := deadline.next_slice()):
            key = get(self._handle, self.number, wait_ns)
        if key < 0 and key != E_TIMEOUT:
            self._fail(key)
        return key

    def level(self) -> int:
        return level(self._handle, self.number)

    def close(self) -> None:
        queue_close(self._handle, self.number)

    def _fail(self, code: int) -> None:
        if code == E_CLOSED:
            raise ClosedError(f"queue {self.name!r} was closed")
        fail(code)

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
        if not isinstance(queue, ShmQueue) or queue._handle is not handle:
            raise UsageError(f"a doorbell waits for queues of its own memory group, not {queue!r}")
        numbers.append(queue.number)
    return numbers
