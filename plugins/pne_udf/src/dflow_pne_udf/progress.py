"""One line about the builds under way, where somebody looks at a terminal; a log line each otherwise."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator

logger = logging.getLogger("dflow.udf")


class Progress:
    """Counts builds; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[str] = []
        self._done = 0

    @contextlib.contextmanager
    def building(self, name: str) -> Iterator[None]:
        """A build that runs inside the block."""
        began = time.monotonic()
        logger.info("building %s", name)
        self._change(name, +1)
        try:
            yield
        finally:
            self._change(name, -1)
            logger.info("%s: %.1f s", name, time.monotonic() - began)

    def _change(self, name: str, by: int) -> None:
        with self._lock:
            if by > 0:
                self._running.append(name)
            else:
                self._running.remove(name)
                self._done += 1
            text = f"[dflow] building C++ functions: {self._done} done"
            if self._running:
                text += f", {len(self._running)} under way ({', '.join(self._running[:3])})"
            if sys.stderr is not None and sys.stderr.isatty():
                print(f"\r\x1b[K{text}", end="" if self._running else "\n", file=sys.stderr, flush=True)
