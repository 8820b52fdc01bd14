"""Functions with queues inline: in a thread of their own, which works only while the caller's thread waits for it.

A function that waits for a message hands the caller's thread the baton, and gets it back with the next message. So only
one of them ever runs, and a graph does the same each time, as inline graphs do.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence

from dflow_core.errors import AbortError
from dflow_core.executor.streams.runner import StreamRunner
from dflow_core.message import FlowMsg

_LIMIT = 60.0
"""Seconds for a function to hand the baton back at the end."""


class InlineSource:
    """The source of one input of a function that runs inline.

    Args:
        depth: What the function is told that it holds at most.
        wait: Hands the baton over until something has changed, or a time has come; tells whether the end has come.
        clock: Monotonic seconds.
    """

    def __init__(self, depth: int, wait: Callable[[float | None], bool], clock: Callable[[], float]) -> None:
        self.depth = depth
        self.waiting: deque[FlowMsg] = deque()
        self.has_ended = False
        self._wait = wait
        self._clock = clock

    def take(self, timeout: float | None, lets_look: bool = False) -> FlowMsg | None:
        until = self.until(timeout)
        while not self.waiting:
            left = self.left(until)
            if left is not None and left <= 0:
                return None
            if self._wait(until):
                self.has_ended = True
                raise AbortError("the graph ends")
            if lets_look and not self.waiting:
                return None
        return self.waiting.popleft()

    def level(self) -> int:
        return len(self.waiting)

    def until(self, timeout: float | None) -> float | None:
        return None if timeout is None else self._clock() + timeout

    def left(self, until: float | None) -> float | None:
        return None if until is None else max(0.0, until - self._clock())


class InlineStream:
    """Runs a function with queues for a caller that feeds it.

    Args:
        name: Name of its thread.
        inputs: How many inputs it has.
        depth: What the function is told that each holds at most.
        clock: Monotonic seconds.
    """

    def __init__(self, name: str, inputs: int, depth: int, clock: Callable[[], float]) -> None:
        self.sources: Sequence[InlineSource] = [InlineSource(depth, self._yield, clock) for _ in range(inputs)]
        self._clock = clock
        self._until: float | None = None
        self._mine, self._callers = threading.Semaphore(0), threading.Semaphore(0)
        self._ends = self._is_interrupted = False
        self._error: BaseException | None = None
        self._runner: StreamRunner | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, runner: StreamRunner) -> None:
        """Let the function run up to where it waits for a message."""
        self._runner = runner
        self._thread.start()
        self._resume()

    def offer(self, port: int, msg: FlowMsg) -> None:
        """Give it a message, and let it run up to where it waits for another."""
        self.sources[port].waiting.append(msg)
        self._resume()

    def deadline(self) -> float | None:
        """When `tick` should be called at the latest, or None."""
        return self._until

    def tick(self) -> None:
        """Let it run if the time has come that it waits for."""
        if self._until is not None and self._until <= self._clock():
            self._resume()

    def discard(self) -> bool:
        """Throw away what it waits with, and begin a call anew; whether there was nothing."""
        had = any([source.waiting for source in self.sources])
        for source in self.sources:
            source.waiting.clear()
        if self._runner is not None and self._runner.reset():
            had = True
        self._is_interrupted = True
        self._resume()
        return not had

    def close(self) -> None:
        """End it. Idempotent."""
        self._ends = True
        if self._thread.is_alive():
            self._resume()
            self._thread.join(_LIMIT)

    def _resume(self) -> None:
        if self._thread.is_alive():
            self._mine.release()
            self._callers.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _yield(self, until: float | None) -> bool:
        if self._ends:
            return True
        self._until = until
        self._callers.release()
        self._mine.acquire()
        self._until = None
        if self._is_interrupted:
            self._is_interrupted = False
            raise AbortError("the graph is recovered")
        return self._ends

    def _run(self) -> None:
        self._mine.acquire()
        try:
            assert self._runner is not None
            while not self._ends:
                if not self._runner.call() and not self._ends:
                    with contextlib.suppress(AbortError):  # there is no call to interrupt
                        self._yield(None)
            self._runner.settle()
        except BaseException as error:
            self._error = error
        finally:
            self._callers.release()
