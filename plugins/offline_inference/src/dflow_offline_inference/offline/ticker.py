"""The one thread that minds the clock: deadlines, scans for what was overlooked, and the end of what is forgotten.

Everything it is told comes through a `SimpleQueue`, which may be used from anywhere, also from a finalizer.
"""

from __future__ import annotations

import heapq
import queue
import threading
import time
from collections.abc import Callable
from typing import Final

_SWEEP: Final = 1024


class Ticker:
    """Minds the clock.

    Args:
        interval: Seconds between scans.
        scan: Called at least that often.
        expire: Called with the id of a request whose deadline has come.
        is_open: Whether a request has not ended.
        abandoned: Called in the ticker's thread when whoever owns everything was forgotten without being closed.
    """

    def __init__(
        self, interval: float, scan: Callable[[], None], expire: Callable[[int], None],
        is_open: Callable[[int], bool], abandoned: Callable[[], None],
    ) -> None:
        self.mailbox: queue.SimpleQueue[tuple[float, int] | str] = queue.SimpleQueue()
        self._interval = interval
        self._scan, self._expire, self._is_open, self._abandoned = scan, expire, is_open, abandoned
        self._deadlines: list[tuple[float, int]] = []
        self.thread = threading.Thread(target=self._run, name="dflow-offline-ticker", daemon=True)

    def watch(self, deadline: float, request_id: int) -> None:
        """Mind the deadline of a request, in seconds of the monotonic clock."""
        self.mailbox.put((deadline, request_id))

    def stop(self, timeout: float) -> None:
        """End the thread."""
        self.mailbox.put("stop")
        if self.thread.ident is not None and self.thread is not threading.current_thread():
            self.thread.join(timeout)

    def _run(self) -> None:
        next_scan = time.monotonic() + self._interval
        while True:
            soonest = min(next_scan, self._deadlines[0][0] if self._deadlines else next_scan)
            try:
                told = self.mailbox.get(timeout=max(0.0, soonest - time.monotonic()))
            except queue.Empty:
                told = ""
            if told == "abandoned":
                self._abandoned()
            if told in ("stop", "abandoned"):
                return
            if isinstance(told, tuple):
                self._add(told)
            now = time.monotonic()
            while self._deadlines and self._deadlines[0][0] <= now:
                self._expire(heapq.heappop(self._deadlines)[1])
            if now >= next_scan:
                self._scan()
                next_scan = now + self._interval

    def _add(self, deadline: tuple[float, int]) -> None:
        heapq.heappush(self._deadlines, deadline)
        if len(self._deadlines) % _SWEEP == 0:
            self._deadlines = [entry for entry in self._deadlines if self._is_open(entry[1])]
            heapq.heapify(self._deadlines)
