"""Where the ready requests of one model wait for one of its workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from dflow_core.errors import DflowError
from dflow_offline_inference.engine.grouping import Grouping
from dflow_offline_inference.engine.shapes import ModelShapes
from dflow_offline_inference.requests import READY, WAITING, Event, EventSink, Request

_SLICE = 0.5


class Station:
    """One model's ready requests. Thread-safe.

    Args:
        name: Name of the model.
        batch: Rows that share a call.
        patience: Seconds the first request of a batch waits for others.
        emit: Takes events, if anybody watches.

    Attributes:
        shapes: What the model takes; known once a worker has loaded it.
        failure: Why no worker is left, if none is.
    """

    def __init__(self, name: str, batch: int, patience: float, emit: EventSink | None = None) -> None:
        self.name = name
        self.shapes: ModelShapes | None = None
        self.failure: DflowError | None = None
        self._grouping = Grouping(batch, patience)
        self._emit = emit
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # entered by its lock, which costs two calls less
        self._idle = 0
        self._draining = False
        self._stopped = False

    @property
    def batch(self) -> int:
        """Rows that share a call."""
        return self._grouping.batch

    def accept(self, request: Request, now: float) -> None:
        """Take over a request from the scheduler: it is ready now. One that has ended meanwhile is left out."""
        with self._lock:
            if request.state is not WAITING:
                return
            # In this order: an interrupt in between is made good when the scheduler hands it over again.
            look = self._grouping.add(request, now) or self._draining
            if not request.advance(READY, now):
                self._grouping.remove(request)
                return
            if self._emit is not None:
                self._emit(Event(request.id, "Scheduler", "hand over"))
                self._emit(Event(request.id, "ExecutionEngine", "group"))
            if look and self._idle:
                self._changed.notify()

    def forget(self, request: Request) -> None:
        """A request has ended before it ran."""
        with self._lock:
            self._grouping.remove(request)

    def take(self, block: bool) -> Sequence[Request] | None:
        """The next batch.

        Args:
            block: Whether to wait for one.

        Returns:
            Requests that can share a call; empty if there is none yet; None if there will be none any more.
        """
        with self._lock:
            while True:
                now = time.monotonic()
                taken = self._grouping.take(now, drain=self._draining)
                if taken:
                    if self._idle and self._grouping:
                        self._changed.notify()
                    return taken
                if self._stopped and not self._grouping:
                    return None
                if not block:
                    return ()
                self._idle += 1
                try:
                    self._changed.wait(min(_SLICE, max(0.0, self._grouping.due() - now)))
                finally:
                    self._idle -= 1

    def one_by_one(self) -> None:
        """Put nothing together any more: the model does not treat rows one by one."""
        with self._lock:
            self._grouping.batch = 1
            self._changed.notify_all()

    def drain(self) -> None:
        """Let batches go that are not full; more will not come."""
        with self._lock:
            self._draining = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Tell workers to end when nothing is left."""
        with self._lock:
            self._draining = self._stopped = True
            self._changed.notify_all()
