"""What else Python offers to carry arrays from process to process, behind the calls of `channels`."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import multiprocessing
import secrets
import signal
import time
from collections.abc import Callable
from multiprocessing.shared_memory import SharedMemory
from typing import Any, ClassVar

import numpy as np
from channels import Bytes, End, Shape

CONTEXT = multiprocessing.get_context("fork")


def stay() -> None:
    """Until this process is killed: what is still on its way would be lost with it."""
    signal.pause()


class PrivateEnd:
    """Base for what sends private arrays, used in turn so that none is written while it still travels."""

    def __init__(self, size: int, spare: int, send: Callable[[Bytes], object], recv: Callable[[], Bytes],
                 finish: Callable[[], None] = lambda: None) -> None:
        self._buffers = itertools.cycle([np.ones(size, np.uint8) for _ in range(spare)])
        self._send, self._recv, self.finish = send, recv, finish

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


def nothing(*_: object) -> Bytes:
    raise AssertionError("this end of the chain does not do that")


class QueueLine:
    """multiprocessing.Queue: pickle, a thread, a pipe."""

    needs: ClassVar[str] = ""
    in_place: ClassVar[bool] = False

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._queues = [self._make() for _ in range(shape.hops)]

    def _make(self) -> Any:
        return CONTEXT.Queue(self._shape.depth)

    def _receiver(self, queue: Any) -> Callable[[], Bytes]:
        return queue.get  # type: ignore[no-any-return]

    def end(self, k: int) -> End:
        send = self._queues[k].put if k < len(self._queues) else nothing
        recv = self._receiver(self._queues[k - 1]) if k else nothing
        return PrivateEnd(self._shape.size, self._shape.depth + 4, send, recv)

    def close(self) -> None:
        for queue in self._queues:
            queue.close()
            queue.join_thread()


class FasterFifoLine(QueueLine):
    """faster-fifo: pickle into a ring in shared memory under a lock; the consumer takes all there is at once."""

    needs: ClassVar[str] = "faster_fifo"

    def _make(self) -> Any:
        import faster_fifo

        shape = self._shape
        return faster_fifo.Queue(max_size_bytes=shape.depth * (shape.size + 512), maxsize=shape.depth)

    def _receiver(self, queue: Any) -> Callable[[], Bytes]:
        got: list[Bytes] = []

        def recv() -> Bytes:
            if not got:
                got.extend(reversed(queue.get_many(timeout=50)))
            return got.pop()

        return recv


class PipeLine:
    """multiprocessing.Pipe with bytes; bounded by the buffer of the pipe alone."""

    needs: ClassVar[str] = ""
    in_place: ClassVar[bool] = False

    def __init__(self, shape: Shape) -> None:
        self._size = shape.size
        self._pipes = [CONTEXT.Pipe(False) for _ in range(shape.hops)]

    def end(self, k: int) -> End:
        def recv() -> Bytes:
            return np.frombuffer(self._pipes[k - 1][0].recv_bytes(), np.uint8)

        send: Callable[[Bytes], object] = self._pipes[k][1].send_bytes if k < len(self._pipes) else nothing
        return PrivateEnd(self._size, 2, send, recv if k else nothing)

    def close(self) -> None:
        for ends in self._pipes:
            for end in ends:
                end.close()


class SlotLine:
    """Slots in multiprocessing.shared_memory, their numbers through Queues, a semaphore that counts free ones."""

    needs: ClassVar[str] = ""
    in_place: ClassVar[bool] = True

    def __init__(self, shape: Shape) -> None:
        self._size, self._depth = shape.size, shape.depth
        self._memory = SharedMemory(create=True, size=shape.size * shape.depth)
        self._queues = [CONTEXT.Queue(shape.depth) for _ in range(shape.hops)]
        self._free = CONTEXT.Semaphore(shape.depth)

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
    def __init__(self, slots: list[Bytes], source: Any, sink: Any, free: Any) -> None:
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

    needs: ClassVar[str] = "zmq"
    in_place: ClassVar[bool] = False

    def __init__(self, shape: Shape) -> None:
        self._size, self._mark = shape.size, max(1, shape.depth // 2)
        # Names in the abstract space: no file is left behind.
        self._names = [f"ipc://@dflow-bench-{secrets.token_hex(8)}" for _ in range(shape.hops)]

    def end(self, k: int) -> End:
        import zmq

        context = zmq.Context.instance()
        send: Callable[[Bytes], object] = nothing
        recv: Callable[[], Bytes] = nothing
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
        return PrivateEnd(self._size, self._mark + 4, send, recv, stay)

    def close(self) -> None:
        pass


class IceoryxLine:
    """iceoryx2: publish and subscribe in shared memory, an event service wakes the consumer. Passing on copies."""

    needs: ClassVar[str] = "iceoryx2"
    in_place: ClassVar[bool] = True

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._names = [f"dflow-bench-{secrets.token_hex(8)}" for _ in range(shape.hops)]

    def end(self, k: int) -> End:
        source = self._names[k - 1] if k else None
        sink = self._names[k] if k < len(self._names) else None
        return IceoryxEnd(self._shape, source, sink)

    def close(self) -> None:
        pass


class IceoryxEnd:
    def __init__(self, shape: Shape, source: str | None, sink: str | None) -> None:
        import iceoryx2

        self._lib, self._size, self._depth = iceoryx2, shape.size, shape.depth
        iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
        self._node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
        signal.signal(signal.SIGTERM, self._leave)
        if source:
            messages, events = self._open(source)
            self._from = messages.subscriber_builder().create()
            self._listener = events.listener_builder().create()
            # Now and then no event comes for a message that did: without a limit the run would hang.
            self._wait = iceoryx2.Duration.from_millis(5)
        if sink:
            messages, events = self._open(sink)
            how = iceoryx2.BackpressureStrategy.RetryUntilDelivered
            publisher = messages.publisher_builder().initial_max_slice_len(self._size)
            self._to = publisher.backpressure_strategy(how).create()
            self._notifier = events.notifier_builder().create()
            time.sleep(0.2)  # ends find each other in the background

    def _open(self, name: str) -> tuple[Any, Any]:
        lib = self._lib
        messages = (
            self._node.service_builder(lib.ServiceName.new(name)).publish_subscribe(lib.Slice[ctypes.c_uint8])
            .enable_safe_overflow(False).subscriber_max_buffer_size(self._depth).history_size(0).open_or_create()
        )
        return messages, self._node.service_builder(lib.ServiceName.new(name)).event().open_or_create()

    def _leave(self, *_: object) -> None:
        """Its segments have names: they go when its objects do."""
        for name in ("_now", "_sample", "_from", "_listener", "_to", "_notifier", "_node"):
            with contextlib.suppress(AttributeError):
                delattr(self, name)
        raise SystemExit(0)

    def loan(self) -> Bytes:
        self._sample = self._to.loan_slice_uninit(self._size)
        return np.frombuffer(self._sample.payload().as_memory_view(), np.uint8)

    def send(self) -> None:
        self._sample.assume_init().send()
        self._notifier.notify()

    def recv(self) -> Bytes:
        while (now := self._from.receive()) is None:
            self._listener.timed_wait(self._wait)
        self._now = now
        self._array: Bytes = np.frombuffer(now.payload().as_memory_view(), np.uint8)
        return self._array

    def release(self) -> None:
        del self._array
        self._now.delete()

    def forward(self) -> None:
        self.loan()[:] = self._array
        self.send()
        self.release()

    def finish(self) -> None:
        stay()
