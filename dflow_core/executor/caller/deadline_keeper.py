"""Ends transactions at their deadlines. Its thread lives no longer than until the last deadline it knows of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_END_LIMIT = 5.0


class DeadlineKeeper:
    """Wakes up for each deadline.

    Args:
        look_ahead: Gives the next deadline (monotonic seconds), or None.
        expire: Ends what is over its deadline.
    """

    def __init__(self, look_ahead: Callable[[], float | None], expire: Callable[[], None]) -> None:
        self._look_ahead, self._expire = look_ahead, expire
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """There may be a new deadline (any thread, holding no lock of the caller's)."""
        with self._lock:
            if self._closed:
                return
            self._news.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep, name="dflow-deadlines", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread. Idempotent."""
        with self._lock:
            self._closed = True
            thread = self._thread
        self._news.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_LIMIT)

    def _keep(self) -> None:
        while True:
            self._news.clear()
            due = self._look_ahead()
            with self._lock:
                # Whoever adds a deadline sets the event after that, so this order misses none.
                if self._closed or (due is None and not self._news.is_set()):
                    self._thread = None
                    return
            if due is not None and not self._news.wait(max(0.0, due - time.monotonic())):
                self._expire()
