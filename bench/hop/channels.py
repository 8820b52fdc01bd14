"""Ways to carry a message from process to process, behind the same few calls.

A `Line` is a chain of bounded queues. `line.end(k)` is what process number k of the chain works with:

    loan(), send()      the source: an array to write into, and send it off
    recv(), release()   the sink: the array that came, and done with it
    forward()           in between: pass on what `recv` gave
    finish()            no more will be sent from here

A runtime is added as one class: here if it is ours, in `peers.py` if it is somebody else's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from dflow_core.spi.transport import GroupConfig
from dflow_transport_shm import ShmTransport
from dflow_transport_shm.group import ShmGroup

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Shape:
    """What a line is made for.

    Args:
        size: Bytes a message.
        depth: Most messages in a queue.
        hops: How many queues follow each other.
        spin_us: Microseconds dflow looks again before it sleeps.
    """

    size: int
    depth: int = 8
    hops: int = 1
    spin_us: int = 5


class End(Protocol):
    """What one process of the chain works with."""

    def loan(self) -> Bytes: ...

    def send(self) -> None: ...

    def recv(self) -> Bytes: ...

    def release(self) -> None: ...

    def forward(self) -> None: ...

    def finish(self) -> None: ...


class Line(Protocol):
    """A chain of bounded queues.

    `needs` is the package it comes from, "" if it is always there. `in_place` says whether the source writes straight
    into what travels; where it does not, it has an ordinary array and sends that.
    """

    needs: ClassVar[str]
    in_place: ClassVar[bool]

    def __init__(self, shape: Shape) -> None: ...

    def end(self, k: int) -> End: ...

    def close(self) -> None: ...


class DflowLine:
    """dflow's shared-memory transport."""

    needs: ClassVar[str] = ""
    in_place: ClassVar[bool] = True

    def __init__(self, shape: Shape) -> None:
        self._transport = ShmTransport()
        self._shape = shape
        limit = max(64 << 20, (shape.depth + 4) * shape.hops * (shape.size + 4096) * 2)
        self._group = self._transport.create_group(GroupConfig(memory_limit=limit, spin_us=shape.spin_us))
        self._queues = [self._group.create_queue(f"hop {i}", shape.depth) for i in range(shape.hops)]
        self._handle = self._group.handle()

    def member(self, k: int) -> ShmGroup:
        """This process as a member of the group."""
        return self._transport.attach(self._handle, self._handle.fds, f"process {k}")

    def end(self, k: int) -> End:
        how = DflowEnd if self.in_place else DflowCopyEnd
        return how(self.member(k), k, len(self._queues), self._shape.size)

    def close(self) -> None:
        self._group.close()


class DflowCopyLine(DflowLine):
    """The same, fed from an ordinary array."""

    in_place: ClassVar[bool] = False


class DflowEnd:
    def __init__(self, member: ShmGroup, k: int, hops: int, size: int) -> None:
        self._size = size
        self._alloc = member.alloc
        if k:
            self._get = member.queue(f"hop {k - 1}").get
        if k < hops:
            self._put = member.queue(f"hop {k}").put

    def loan(self) -> Bytes:
        self._block = self._alloc(self._size, None)
        return self._block.array(writable=True)

    def send(self) -> None:
        self._put(self._block)

    def recv(self) -> Bytes:
        block = self._get()
        assert block is not None
        self._block = block
        return block.array()

    def release(self) -> None:
        del self._block

    def forward(self) -> None:
        self._put(self._block)

    def finish(self) -> None:
        pass


class DflowCopyEnd(DflowEnd):
    def __init__(self, member: ShmGroup, k: int, hops: int, size: int) -> None:
        super().__init__(member, k, hops, size)
        self._own = np.ones(size, np.uint8)

    def loan(self) -> Bytes:
        return self._own

    def send(self) -> None:
        block = self._alloc(self._size, None)
        block.array(writable=True)[:] = self._own
        self._put(block)
