"""Ways to carry a message from process to process, behind the same few calls.

A `Line` is a chain of bounded queues. `line.end(k)` is what process number k of the chain works with:

    loan(), send()      the source: an array to write into, and send it off
    recv(), release()   the sink: the array that came, and done with it
    forward()           in between: pass on what `recv` gave

`in_place` says whether the source writes straight into what travels. Where it is False, the source has an ordinary
array and sends that.
"""

from __future__ import annotations

import itertools
import multiprocessing
import secrets
import signal
from collections.abc import Callable
from multiprocessing.context import ForkContext
from multiprocessing.shared_memory import SharedMemory
from typing import Protocol

import numpy as np
import numpy.typing as npt
import zmq

from dflow_core.spi.transport import GroupConfig
from dflow_transport_shm import ShmTransport
from dflow_transport_shm.group import ShmGroup

Bytes = npt.NDArray[np.uint8]


class End(Protocol):
    """What one process of the chain works with."""

    def loan(self) -> Bytes: ...

    def send(self) -> None: ...

    def recv(self) -> Bytes: ...

    def release(self) -> None: ...

    def forward(self) -> None: ...

    def finish(self) -> None: ...


class Line(Protocol):
    """A chain of bounded queues."""

    def end(self, k: int) -> End: ...

    def close(self) -> None: ...


class DflowLine:
    """dflow's shared-memory transport."""

    copy_in = False

    def __init__(self, size: int, depth: int, hops: int, spin_us: int) -> None:
        self._transport = ShmTransport()
        self._size = size
        limit = max(64 << 20, (depth + 4) * hops * (size + 4096) * 2)
        self._group = self._transport.create_group(GroupConfig(memory_limit=limit, spin_us=spin_us))
        self._queues = [self._group.create_queue(f"hop {i}", depth) for i in range(hops)]
        self._handle = self._group.handle()

    def end(self, k: int) -> End:
        member = self._transport.attach(self._handle, self._handle.fds, f"process {k}")
        return (DflowCopyEnd if self.copy_in else DflowEnd)(member, k, len(self._queues), self._size)

    def close(self) -> None:
        self._group.close()


class DflowCopyLine(DflowLine):
    """The same, fed from an ordinary array."""

    copy_in = True


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


class PrivateEnd:
    """Base for what sends private arrays, used in turn so that none is written while it still travels."""

    def __init__(self, size: int, spare: int, send: Callable[[Bytes], object], recv: Callable[[], Bytes]) -> None:
        self._buffers = itertools.cycle([np.ones(size, np.uint8) for _ in range(spare)])
        self._send, self._recv = send, recv

    def loan(self) -> Bytes:
        self._now = next(self._buffers)
        return self._now

    def send(self) -> None:
        self._send(self._now)

    def recv(self) -> Bytes:
        self._now = self._recv()
        return self._now

    def release(self) -> None:
        pass

    def forward(self) -> None:
        self._send(self._now)

    def finish(self) -> None:
        pass


def _nothing(*_: object) -> Bytes:
    raise AssertionError("this end of the chain does not do that")


class QueueLine:
    """multiprocessing.Queue: pickle, a thread, a pipe."""

    def __init__(self, size: int, depth: int, hops: int, context: ForkContext) -> None:
        self._size, self._depth = size, depth
        self._queues = [context.Queue(depth) for _ in range(hops)]

    def end(self, k: int) -> End:
        send = self._queues[k].put if k < len(self._queues) else _nothing
        return PrivateEnd(self._size, self._depth + 4, send, self._queues[k - 1].get if k else _nothing)

    def close(self) -> None:
        for queue in self._queues:
            queue.close()
            queue.join_thread()


class PipeLine:
    """multiprocessing.Pipe with bytes; bounded by the buffer of the pipe alone."""

    def __init__(self, size: int, depth: int, hops: int, context: ForkContext) -> None:
        self._size = size
        self._pipes = [context.Pipe(False) for _ in range(hops)]

    def end(self, k: int) -> End:
        def recv() -> Bytes:
            return np.frombuffer(self._pipes[k - 1][0].recv_bytes(), np.uint8)

        send: Callable[[Bytes], object] = self._pipes[k][1].send_bytes if k < len(self._pipes) else _nothing
        return PrivateEnd(self._size, 2, send, recv if k else _nothing)

    def close(self) -> None:
        for ends in self._pipes:
            for end in ends:
                end.close()


class SlotLine:
    """Slots in multiprocessing.shared_memory, their numbers through Queues, a semaphore that counts free ones."""

    def __init__(self, size: int, depth: int, hops: int, context: ForkContext) -> None:
        self._size, self._depth = size, depth
        self._memory = SharedMemory(create=True, size=size * depth)
        self._queues = [context.Queue(depth) for _ in range(hops)]
        self._free = context.Semaphore(depth)

    def end(self, k: int) -> End:
        everything = np.frombuffer(self._memory.buf, np.uint8)
        slots = [everything[i * self._size : (i + 1) * self._size] for i in range(self._depth)]
        return SlotEnd(slots, self._queues[k - 1] if k else None, self._queues[k] if k < len(self._queues) else None,
                       self._free)

    def close(self) -> None:
        for queue in self._queues:
            queue.close()
            queue.join_thread()
        self._memory.close()
        self._memory.unlink()


class SlotEnd:
    def __init__(self, slots: list[Bytes], source, sink, free) -> None:  # type: ignore[no-untyped-def]
        self._slots, self._in, self._out, self._free = slots, source, sink, free
        self._turn = itertools.cycle(range(len(slots)))
        self._now = 0

    def loan(self) -> Bytes:
        self._free.acquire()
        self._now = next(self._turn)
        return self._slots[self._now]

    def send(self) -> None:
        self._out.put(self._now)

    forward = send

    def recv(self) -> Bytes:
        self._now = self._in.get()
        return self._slots[self._now]

    def release(self) -> None:
        self._free.release()

    def finish(self) -> None:
        pass


class ZmqLine:
    """pyzmq PUSH and PULL over ipc, without copies on Python's side."""

    def __init__(self, size: int, depth: int, hops: int) -> None:
        self._size, self._mark = size, max(1, depth // 2)
        # Names in the abstract space: no file is left behind.
        self._names = [f"ipc://@dflow-bench-{secrets.token_hex(8)}" for _ in range(hops)]

    def end(self, k: int) -> End:
        context = zmq.Context.instance()
        send: Callable[[Bytes], object] = _nothing
        recv: Callable[[], Bytes] = _nothing
        if k:
            pull = context.socket(zmq.PULL)
            pull.setsockopt(zmq.RCVHWM, self._mark)
            pull.bind(self._names[k - 1])
            recv = lambda: np.frombuffer(pull.recv(copy=False), np.uint8)  # noqa: E731
        if k < len(self._names):
            push = context.socket(zmq.PUSH)
            push.setsockopt(zmq.SNDHWM, self._mark)
            push.connect(self._names[k])
            send = lambda array: push.send(array, copy=False)  # noqa: E731
        return ZmqEnd(self._size, self._mark + 4, send, recv)

    def close(self) -> None:
        pass


class ZmqEnd(PrivateEnd):
    def finish(self) -> None:
        signal.pause()  # until it is killed: what is still on its way would be lost with the process, despite LINGER


CONTEXT = multiprocessing.get_context("fork")
OURS = ("dflow in place", "dflow copy in")
LINES: dict[str, Callable[[int, int, int, int], Line]] = {
    "dflow in place": DflowLine,
    "dflow copy in": DflowCopyLine,
    "mp.Queue": lambda size, depth, hops, _: QueueLine(size, depth, hops, CONTEXT),
    "mp.Pipe bytes": lambda size, depth, hops, _: PipeLine(size, depth, hops, CONTEXT),
    "shared_memory + Queue": lambda size, depth, hops, _: SlotLine(size, depth, hops, CONTEXT),
    "pyzmq ipc": lambda size, depth, hops, _: ZmqLine(size, depth, hops),
}
