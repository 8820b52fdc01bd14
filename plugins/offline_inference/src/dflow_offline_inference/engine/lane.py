"""The step loop of one worker: takes ready work, submits it, and collects what is complete.

A ModelWorker belongs to the thread of its lane, which loads it, runs it and closes it; nobody else ever touches it.
While a call computes, the next one is gathered and begun (as many as the worker's `depth`), and the results of the one
before are copied out. Each call has buffers of its own.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from dflow_core.errors import DflowError, PeerGoneError, RunError
from dflow_core.spi import ModelWorker
from dflow_core.types import Array
from dflow_offline_inference.engine.batch import Batch, Buffers, RowsError
from dflow_offline_inference.engine.shapes import ModelShapes
from dflow_offline_inference.engine.station import Station
from dflow_offline_inference.requests import (
    LOGGER,
    READY,
    RUNNING,
    Event,
    EventSink,
    Request,
    RequestFailedError,
    WorkerLostError,
)


class Delivery(Protocol):
    """Who takes what workers have done. Requests may have ended otherwise meanwhile; their slots are free now."""

    def completed(self, requests: Sequence[Request], outputs: Sequence[Sequence[Array]]) -> None:
        """Requests of one model ran, and these are the outputs of each."""

    def failed(self, requests: Sequence[Request], errors: Sequence[Exception]) -> None:
        """Requests of one model could not be run."""


class Keeper(Protocol):
    """Who keeps the lanes."""

    def lane_ready(self, lane: Lane) -> None:
        """A lane has loaded its worker, or has failed to."""

    def lane_lost(self, lane: Lane, cause: DflowError) -> None:
        """A worker has gone and will not come back."""


_Flight: TypeAlias = tuple[Batch, Buffers, object]
"""A call under way: what it is for, where its arrays lie, and what the worker calls it."""


class Lane:
    """A worker with its thread.

    Args:
        station: Where its work comes from.
        index: Number of the instance.
        load: Gives the worker; called in the lane's thread.
        delivery: Who takes what it has done.
        keeper: Who is told of its beginning and end.
        emit: Takes events, if anybody watches.

    Attributes:
        worker: The worker, once it is loaded and until it is closed.
        error: Why it could not be loaded, if it could not.
        depth: Calls that it takes at once.
    """

    def __init__(
        self, station: Station, index: int, load: Callable[[], ModelWorker], delivery: Delivery, keeper: Keeper,
        emit: EventSink | None = None,
    ) -> None:
        self.station = station
        self.index = index
        self.worker: ModelWorker | None = None
        self.error: BaseException | None = None
        self.depth = 1
        self._load = load
        self._delivery = delivery
        self._keeper = keeper
        self._emit = emit
        self._flights: deque[_Flight] = deque()
        self._again: deque[Batch] = deque()
        self._buffers: list[Buffers] = []
        self._failure: DflowError | None = None
        self.thread = threading.Thread(target=self._run, name=f"dflow-{station.name}#{index}", daemon=True)

    def _run(self) -> None:
        try:
            self.worker = self._load()
        except BaseException as cause:  # also SystemExit of a library; whoever started the lane is told
            self.error = cause
            self._keeper.lane_ready(self)
            return
        self.depth = self.worker.depth
        self._buffers = [Buffers() for _ in range(self.depth)]
        self._keeper.lane_ready(self)
        try:
            if self.error is None:
                self._serve(self.worker)
        except BaseException as cause:  # a fault of this package must not leave anybody waiting
            LOGGER.exception("model %r#%d: its step loop failed", self.station.name, self.index)
            self._give_up(RunError(f"its step loop failed: {type(cause).__name__}: {cause}", node=self.station.name))
        finally:
            worker, self.worker = self.worker, None
            self._close(worker)

    def _serve(self, worker: ModelWorker) -> None:
        assert self.station.shapes is not None
        while self._failure is None:
            if not self._step(worker, self.station.shapes):
                return
        self._give_up(self._failure)

    def _step(self, worker: ModelWorker, shapes: ModelShapes) -> bool:
        """Submit a batch, or collect one; False when there is nothing left and never will be."""
        batch = self._next()
        if batch is None and not self._flights:
            return False
        if batch is not None:
            self._start(worker, shapes, batch)
        if self._flights and (batch is None or len(self._flights) >= worker.depth):
            self._finish(worker, shapes)
        return True

    def _next(self) -> Batch | None:
        """The next batch, its requests running; None if there is none now."""
        while self._again:
            batch = self._again.popleft()
            if not batch.requests[0].ended:
                return batch
            self._delivery.completed(batch.requests, [()])
        while taken := self.station.take(block=not self._flights):
            now = time.monotonic()
            requests, inputs, rows = [], [], 0
            for request in taken:
                arrays = request.inputs  # before it runs: who ends it meanwhile lets them go
                if request.state is READY and request.advance(RUNNING, now):
                    requests.append(request)
                    inputs.append(arrays)
                    rows += request.rows
            if requests:
                batch = Batch(requests, inputs, rows)
                if self._emit is not None:
                    self._tell(batch.requests, "ExecutionEngine", "choose")
                return batch
        return None

    def _start(self, worker: ModelWorker, shapes: ModelShapes, batch: Batch) -> None:
        for buffers in self._buffers:  # one for each call in flight: one of them is free
            if buffers.claim():
                break
        try:
            arrays = batch.gather(shapes, buffers, self.station.batch)
            if self._emit is not None:
                self._tell(batch.requests, "ModelWorker", "submit")
            call = worker.begin(arrays, np.empty if len(batch.requests) == 1 else buffers.alloc)
        except BaseException as cause:
            buffers.release()
            self._failed(worker, batch, cause)
        else:
            self._flights.append((batch, buffers, call))

    def _finish(self, worker: ModelWorker, shapes: ModelShapes) -> None:
        batch, buffers, call = self._flights[0]  # until all is done with it: `_give_up` ends what is in flight
        try:
            results = worker.finish(call)
            if self._emit is not None:
                self._tell(batch.requests, "ModelWorker", "complete")
            scattered = batch.scatter(shapes, results)
            if self._emit is not None:
                self._tell(batch.requests, "ExecutionEngine", "copy out")
        except BaseException as cause:
            self._failed(worker, batch, cause)
        else:
            self._delivery.completed(batch.requests, scattered)
        self._flights.popleft()
        buffers.release()

    def _failed(self, worker: ModelWorker, batch: Batch, cause: BaseException) -> None:
        """A call failed: its requests get a call each, so that a bad one fails alone."""
        self._failure = worker.failure()
        if len(batch.requests) > 1 and self._failure is None:
            LOGGER.info(
                "model %r#%d: a batch failed, its requests are run one by one (%s): %s", self.station.name, self.index,
                ", ".join(f"request {request.id}" for request in batch.requests), cause,
            )
            if isinstance(cause, RowsError):
                self.station.one_by_one()
            self._again.extend(batch.singles())
            return
        lost = self._failure is not None
        self._delivery.failed(batch.requests, [self._error(request, cause, lost) for request in batch.requests])

    def _error(self, request: Request, cause: BaseException, lost: bool) -> Exception:
        message = cause.message if isinstance(cause, DflowError) else f"{type(cause).__name__}: {cause}"
        hint = cause.hint if isinstance(cause, DflowError) else None
        kind = WorkerLostError if lost or isinstance(cause, PeerGoneError) else RequestFailedError
        error = kind(message, request_id=request.id, model=self.station.name, instance=self.index, hint=hint)
        error.__cause__ = cause
        return error

    def _give_up(self, failure: DflowError) -> None:
        """The worker can run nothing any more."""
        left = [r for batch in [*(flight[0] for flight in self._flights), *self._again] for r in batch.requests]
        self._again.clear()
        self._delivery.failed(left, [self._error(request, failure, lost=True) for request in left])
        self._keeper.lane_lost(self, failure)

    def _close(self, worker: ModelWorker) -> None:
        try:
            worker.close()
        except Exception as cause:
            LOGGER.warning("model %r#%d could not be closed: %s", self.station.name, self.index, cause)
        for _, buffers, _ in self._flights:  # only now is nothing in flight
            buffers.release()
        self._flights.clear()

    def _tell(self, requests: Sequence[Request], layer: str, step: str) -> None:
        assert self._emit is not None
        for request in requests:
            self._emit(Event(request.id, layer, step))

