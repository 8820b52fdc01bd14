"""Watches a running graph while something is in flight, and reports a stall once.

The thread lives only while transactions are under way: an idle graph has none, and nothing polls.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from dflow_core.errors import DflowError
from dflow_core.executor.caller.stall import Stall, StallWatch, concerned, report
from dflow_core.executor.caller.stats import GraphStats

_LOG = logging.getLogger("dflow.stall")
_LONGEST_PAUSE = 2.5
_END_LIMIT = 5.0


class StallMonitor:
    """Reports through the logger `dflow.stall`, level WARNING; without a handler that is the standard error.

    Args:
        limit: Seconds without any movement that are a stall.
        stats: Reads the counters.
        readers: For each edge, the node that reads it; "" for the caller.
        processes: For each instance, the process it lives in.
        stacks: Says what the processes are doing.
    """

    def __init__(
        self, limit: float, stats: Callable[[], GraphStats], readers: Mapping[str, str],
        processes: Mapping[tuple[str, int], str], stacks: Callable[[], Mapping[str, str]],
    ) -> None:
        self.armed = False
        self._limit, self._stats, self._stacks = limit, stats, stacks
        self._readers, self._processes = readers, processes
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def arm(self) -> None:
        """Something is in flight: watch until nothing is. Any thread."""
        with self._lock:
            if self.armed or self._closed.is_set():
                return
            self.armed = True
            self._thread = threading.Thread(target=self._watch, name="dflow-stall", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._closed.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_END_LIMIT)

    def _watch(self) -> None:
        watch = StallWatch(self._limit)
        pause = min(self._limit / 4, _LONGEST_PAUSE)
        while not self._closed.wait(pause):
            try:
                if not self._look(watch):
                    return
            except DflowError:  # the graph is ending, or has failed: whoever waits hears of it
                self.armed = False
                return

    def _look(self, watch: StallWatch) -> bool:
        """Look once; whether to go on."""
        stats = self._stats()
        if not stats.in_flight:
            # Whoever feeds counts first and looks at `armed` after that, so this order misses nobody.
            self.armed = False
            if self._stats().in_flight:
                self.arm()
            return False
        stall = watch.look(time.monotonic(), stats)
        if stall is not None and not self._closed.is_set():
            self._report(stats, stall)
        return True

    def _report(self, stats: GraphStats, stall: Stall) -> None:
        wanted = {self._processes[one.node, one.instance] for one in concerned(stats, stall, self._readers)}
        stacks = {name: text for name, text in self._stacks().items() if name in wanted}
        _LOG.warning("%s", report(stats, stall, self._readers, stacks))


