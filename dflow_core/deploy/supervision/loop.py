"""One thread that waits for descriptors, timers and calls from other threads."""

from __future__ import annotations

import contextlib
import itertools
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

Call: TypeAlias = Callable[[], None]


class Loop:
    """A thread that makes calls; every call is made in it, one after the other.

    Args:
        name: Name of the thread.
        idle: Called after every round; gives how many seconds the next round may be away, None for any.
        broken: Told of an exception of a call; the loop goes on.
    """

    def __init__(self, name: str, idle: Callable[[], float | None], broken: Callable[[BaseException], None]) -> None:
        self._idle, self._broken = idle, broken
        self._started = self._end = False
        self._inbox: deque[Call] = deque()
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()
        self._selector = selectors.DefaultSelector()
        self._wake, self._alarm = socket.socketpair()
        self._wake.setblocking(False)
        self._alarm.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ, self._drain)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._started = True  # first: an interrupt may come while the thread starts
        self._thread.start()

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._started

    @property
    def ended(self) -> bool:
        """Whether it makes no calls any more."""
        return self._end

    def post(self, call: Call) -> None:
        """Have a call made soon; any thread."""
        self._inbox.append(call)
        with contextlib.suppress(OSError):
            self._alarm.send(b"x")

    def after(self, seconds: float, call: Call) -> None:
        """Have a call made in some seconds; from the loop's calls only."""
        heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), call))

    def listen(self, fd: int, call: Call, *, writable: bool = False) -> None:
        """Have a call made whenever a descriptor is readable, or writable too; replaces what was said of it before."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writable else 0)
        self.forget(fd)
        self._selector.register(fd, events, call)

    def forget(self, fd: int) -> None:
        """Listen to a descriptor no more; nothing happens if nobody did."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fd)

    def close(self, timeout: float) -> None:
        """End the thread after the calls that wait already; any thread but its own. Idempotent."""
        self.post(self._finish)
        if not self._started:
            self._release()
            return
        with contextlib.suppress(RuntimeError):  # interrupted before it began; it ends when it does
            self._thread.join(timeout)

    def _run(self) -> None:
        pause: float | None = None
        while not self._end:
            for key, _ in self._selector.select(pause):
                # A call may have let go of what a later one listens to.
                if key.fd in self._selector.get_map():
                    self._make(key.data)
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                self._make(heappop(self._timers)[2])
            while self._inbox:
                self._make(self._inbox.popleft())
            pause = self._pause(self._idle())
        self._release()

    def _make(self, call: Call) -> None:
        try:
            call()
        except BaseException as error:
            self._broken(error)

    def _pause(self, wanted: float | None) -> float | None:
        pauses = [] if wanted is None else [wanted]
        if self._timers:
            pauses.append(self._timers[0][0] - time.monotonic())
        return max(0.0, min(pauses)) if pauses else None

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)

    def _finish(self) -> None:
        self._end = True

    def _release(self) -> None:
        self._selector.close()
        self._wake.close()
        self._alarm.close()
