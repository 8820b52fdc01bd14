"""Functions with queues in an executor: a thread for each, over the queues of a memory group."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence

from dflow_core.errors import AbortError, ClosedError
from dflow_core.executor.gate import Gate
from dflow_core.executor.lossy import LossyReader, waitable
from dflow_core.executor.streams.runner import StreamRunner
from dflow_core.message import FlowMsg
from dflow_core.spi import Doorbell, Queue

_SLICE = 0.2
_IDLE = 0.1
_PAUSE = 0.02


class QueueSource:
    """A queue of a memory group as the source of an input.

    Args:
        queue: The queue.
        doorbell: For waits for a queue that does not wait itself.
        gate: Whether the instance is to end, or to pause.
    """

    def __init__(self, queue: Queue, doorbell: Doorbell, gate: Gate) -> None:
        self.depth = queue.depth
        self.queue = queue
        self._bell = doorbell if isinstance(queue, LossyReader) else None
        self._gate = gate
        self.has_ended = False

    def take(self, timeout: float | None, lets_look: bool = False) -> FlowMsg | None:
        until = self.until(timeout)
        while True:
            if self._gate.stopping:
                raise AbortError("the graph ends")
            if self._gate.is_suspended:
                raise AbortError("the graph is suspended")
            left = self.left(until)
            patience = _SLICE if left is None else min(_SLICE, left)
            try:
                block = self.queue.get(timeout=patience)
                if block is None and self._bell is not None and patience:
                    self._bell.wait(waitable([self.queue]), timeout=patience)
                    block = self.queue.get(timeout=0)
            except ClosedError:
                self.has_ended = True
                raise AbortError("the input has ended") from None
            if block is not None:
                return FlowMsg.from_block(block)
            if lets_look or (left is not None and left <= 0):
                return None

    def level(self) -> int:
        return self.queue.level()

    def until(self, timeout: float | None) -> float | None:
        return None if timeout is None else time.monotonic() + timeout

    def left(self, until: float | None) -> float | None:
        return None if until is None else max(0.0, until - time.monotonic())


class StreamThread:
    """Runs a function with queues in a thread of its own.

    Args:
        name: Name of the thread.
        runner: The function.
        sources: Its queues.
        doorbell: For waits between calls that do nothing.
        gate: Whether the instance is to end, or to pause.
        ended: Called in the thread at its end.
    """

    def __init__(
        self, name: str, runner: StreamRunner, sources: Sequence[QueueSource], doorbell: Doorbell, gate: Gate,
        ended: Callable[[], None],
    ) -> None:
        self.error: BaseException | None = None
        self._runner = runner
        self._sources = tuple(sources)
        self._doorbell = doorbell
        self._gate = gate
        self._is_paused = False
        self._ended = ended
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it works still."""
        return self._thread.is_alive()

    @property
    def is_quiet(self) -> bool:
        """Whether no call is under way, and none begins while the instance is suspended."""
        return self._is_paused or not self.is_alive

    def clear(self) -> bool:
        """While suspended, forget what the function owes; whether that was something."""
        return self._runner.reset()

    def wake(self) -> None:
        """Have it look whether it is to stop."""
        self._doorbell.ring()

    def join(self, timeout: float) -> None:
        """Wait for its end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._gate.stopping:
                self._pause()
                did = self._runner.call()
                if self._runner.has_ended or self._runner.has_given_up:
                    break
                if not did:
                    self._rest()
            if not self._gate.stopping:
                self._runner.settle()
                self._let_rest_pass()
        except ClosedError:
            pass  # an output queue was closed: the graph ends
        except BaseException as error:
            self.error = error
        finally:
            self._ended()

    def _let_rest_pass(self) -> None:
        """What still comes at other inputs, when the function has given up, ends as skipped."""
        for port, source in enumerate(self._sources):
            while not source.has_ended:
                with contextlib.suppress(AbortError):
                    msg = source.take(None)
                    assert msg is not None
                    self._runner.let_pass(port, msg)
                if self._gate.stopping:
                    return
                self._pause()

    def _pause(self) -> None:
        """Wait while the instance is suspended."""
        while self._gate.is_suspended and not self._gate.stopping:
            self._is_paused = True
            self._doorbell.wait((), timeout=_PAUSE)
        self._is_paused = False

    def _rest(self) -> None:
        """A function that comes back at once, without having taken anything, is called again when something waits."""
        queues = [source.queue for source in self._sources if not source.has_ended]
        self._doorbell.wait(waitable(queues), timeout=_IDLE)


class Streams:
    """The functions with queues of one instance.

    Args:
        threads: Each in a thread of its own.
        gate: Whether the instance is to end.
    """

    def __init__(self, threads: Sequence[StreamThread] = (), gate: Gate | None = None) -> None:
        self._threads = tuple(threads)
        self._gate = gate or Gate()

    def start(self) -> None:
        """Let them begin."""
        for thread in self._threads:
            thread.start()

    def join(self, check: Callable[[], None]) -> None:
        """Wait for their end; one that does not heed the end of the graph is left behind.

        Args:
            check: Called now and then; may raise.
        """
        for thread in self._threads:
            while thread.is_alive and not self._gate.stopping:
                thread.join(_SLICE)
                check()
            thread.join(_SLICE)
        check()

    def check(self) -> None:
        """Raise what one of them could not go on with."""
        for thread in self._threads:
            if thread.error is not None:
                raise thread.error

    def wake(self) -> None:
        """Have them look whether they are to stop."""
        for thread in self._threads:
            thread.wake()

    @property
    def is_quiet(self) -> bool:
        """Whether no call is under way, and none begins while the instance is suspended."""
        return all(thread.is_quiet for thread in self._threads)

    def clear(self) -> bool:
        """While suspended, forget what they owe; whether that was something."""
        return any([thread.clear() for thread in self._threads])
