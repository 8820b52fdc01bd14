"""The open requests, and the one way each of them ends.

Completions come from workers' threads, cancels from anybody, deadlines from the ticker, dependencies from each other.
All of them meet here: `Request.end` lets exactly one win, and whoever wins gives back the slot, ends those that
depended on the request, calls the callbacks and strikes the request off.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from dflow_core.errors import ClosedError, DflowError, UsageError
from dflow_core.types import Array
from dflow_offline_inference.engine import ExecutionEngine
from dflow_offline_inference.requests import (
    DONE,
    ERROR,
    DeadlineError,
    DependencyError,
    Event,
    EventSink,
    Request,
    RequestCancelledError,
    RequestError,
    Result,
    State,
    WorkerLostError,
    log,
)
from dflow_offline_inference.scheduler import Answers, Hopeless, Scheduler

_SLICE = 0.5
_MOST_FAILED = 65536

_Ending = tuple[Request, State, RequestError]


class Desk:
    """Knows every request that has not ended. Thread-safe.

    Args:
        names: Names of the models, by number.
        emit: Takes events, if anybody watches.

    Attributes:
        scheduler, engine: The layers below; set once, before the first request.
        watched: Whether anybody takes events.
    """

    scheduler: Scheduler
    engine: ExecutionEngine

    def __init__(self, names: Sequence[str], emit: EventSink | None = None) -> None:
        self.names = tuple(names)
        self._emit = emit
        self.watched = emit is not None
        self._open: dict[int, Request] = {}
        self._failed: dict[int, str] = {}
        self._idle = threading.Condition(threading.Lock())
        self._awaited = False
        self._newest = 0
        self._pid = os.getpid()

    @property
    def in_fork(self) -> bool:
        """Whether this is a fork of the process that runs requests."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Refuse use in a fork.

        Raises:
            ClosedError: nothing that is asked for here will ever end.
        """
        if self.in_fork:
            raise ClosedError(f"offline inference belongs to process {self._pid}; this is a fork of it",
                              hint="make one in the forked process")

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return len(self._open)

    def is_open(self, number: int) -> bool:
        """Whether a request has not ended."""
        return number in self._open

    def admit(self, request: Request, after: Sequence[Request], timeout: float | None) -> None:
        """Give a new request to the scheduler.

        Raises:
            QueueFullError, ClosedError: it was not taken; nothing of it is left.
        """
        try:
            failed = self.scheduler.submit(request, after, timeout)
        except DflowError:
            raise
        except BaseException:  # Ctrl-C: nobody has a handle of it
            self.cancel(request, "interrupted while it was submitted")
            self.scheduler.repair()
            raise
        station = self.engine.stations[request.model]
        if failed is not None:
            self._end(request, ERROR, time.monotonic(), error=self._doomed(request, failed))
            self._strike(request)
        elif station.failure is not None:
            self._end_all([(request, State.ERROR, self._lost(request, station.failure))])

    def taken(self, request: Request) -> None:
        """The scheduler has taken in a request (and holds its lock): from now on everybody may end it."""
        self._open[request.id] = request
        if request.id > self._newest:
            self._newest = request.id

    def find(self, others: Iterable[Request | int]) -> tuple[list[Request], int | None]:
        """Requests, also by id; those that are done may be left out.

        Returns:
            They, and the id of one that ended badly, if it is only known by that.

        Raises:
            UsageError: for an id that no request has had yet.
        """
        found: list[Request] = []
        for number in others:
            if isinstance(number, Request):
                found.append(number)
                continue
            if not 1 <= number <= self._newest and number not in self._failed:
                raise UsageError(f"no request {number} was made before this one",
                                 hint="a request can depend on earlier ones only, so not on itself")
            request = self._open.get(number)
            if request is not None:
                found.append(request)
            elif number in self._failed:
                return found, number
        return found, None

    def refuse(self, request: Request, failed: int) -> None:
        """End a new request at once: it depends on one that ended badly."""
        error = self._doomed_by(request, failed, self._failed.get(failed, ""))
        self._end(request, ERROR, time.monotonic(), error=error)
        self._strike(request)

    def completed(self, requests: Sequence[Request], outputs: Sequence[Sequence[Array]]) -> None:
        """See `Delivery`."""
        shapes = self.engine.stations[requests[0].model].shapes
        assert shapes is not None
        now = time.monotonic()
        for request, arrays in zip(requests, outputs):
            self._end(request, DONE, now, Result(request.id, shapes.output_names, arrays, request.context))
        self._release(requests)

    def failed(self, requests: Sequence[Request], errors: Sequence[Exception]) -> None:
        """See `Delivery`."""
        now = time.monotonic()
        for request, error in zip(requests, errors):
            self._end(request, ERROR, now, error=error)
        self._release(requests)

    def _release(self, requests: Sequence[Request]) -> None:
        """Free the slots of requests that ran."""
        hopeless = self.scheduler.release(requests)
        for request in requests:
            self._strike(request)
        if hopeless:
            self._end_all(self._doomed_all(hopeless))

    def cancel(self, request: Request, why: str = "cancelled") -> bool:
        """Cancel a request; whether it had not ended. One that runs is finished, and its result let go."""
        error = RequestCancelledError(why, request_id=request.id, model=self.names[request.model])
        return self._end_all([(request, State.CANCELLED, error)])

    def cancel_all(self, why: str, *, running: bool = False) -> None:
        """Cancel all that do not run, or all."""
        for request in list(self._open.values()):
            if running or request.state is not State.RUNNING:
                self.cancel(request, why)

    def expire(self, number: int) -> None:
        """A deadline has come."""
        request = self._open.get(number)
        if request is not None:
            text = f"its deadline came while it was {request.state.value}: {request.story()}"
            error = DeadlineError(text, request_id=number, model=self.names[request.model])
            self._end_all([(request, State.ERROR, error)])

    def model_lost(self, model: int, cause: DflowError) -> None:
        """A model has no worker left: nothing that was asked of it will ever run."""
        self._end_all([(request, State.ERROR, self._lost(request, cause))
                       for request in list(self._open.values()) if request.model == model])

    def tell(self, request: Request, step: str) -> None:
        """Tell who watches, if anybody does, of a step of this layer."""
        if self._emit is not None:
            self._emit(Event(request.id, "OfflineInference", step))

    def answers(self, request: Request) -> Answers:
        """Whether a request may run now."""
        return self.scheduler.can_schedule(request)

    def wait_idle(self, timeout: float | None) -> bool:
        """Wait until no request is open; whether that came within `timeout` seconds (None is no limit)."""
        limit = None if timeout is None else time.monotonic() + timeout
        with self._idle:
            self._awaited = True
            while self._open:
                left = _SLICE if limit is None else min(_SLICE, limit - time.monotonic())
                if left <= 0:
                    return False
                self._idle.wait(left)
        return True

    def _end_all(self, endings: Sequence[_Ending]) -> bool:
        """End requests, and those that depend on them, and so on; whether any had not ended."""
        todo: deque[_Ending] = deque(endings)
        changed = False
        while todo:
            request, state, error = todo[0]
            try:
                before = self._end(request, state, time.monotonic(), error=error)
                if before is not None:
                    changed = True
                    todo.extend(self._dropped(request, before))
                todo.popleft()
            except BaseException:
                self._resume(request)
                raise
        return changed

    def _end(
        self, request: Request, state: State, at: float, result: Result | None = None,
        error: Exception | None = None,
    ) -> State | None:
        """End a request; the state it was in, or None if somebody else was first."""
        before = request.end(state, at, result, error)
        if before is not None and self._emit is not None:
            self._emit(Event(request.id, "ExecutionEngine", "end"))
        return before

    def _dropped(self, request: Request, before: State) -> list[_Ending]:
        """Give back what a request held that did not come to its end by itself."""
        hopeless: Sequence[Hopeless] = ()
        if before is State.READY:
            self.engine.forget(request)
        if before is not State.RUNNING:  # its worker gives back the slot, when it is done
            hopeless = self.scheduler.ended(request, before)
        self._strike(request)
        return self._doomed_all(hopeless)

    def _resume(self, request: Request) -> None:
        """Ctrl-C came between the end of a request and what follows from it: do that now."""
        if request.ended and request.id in self._open:
            rest = self._dropped(request, request.history[-2][0])
            self.scheduler.repair()
            self._end_all(rest)

    def _strike(self, request: Request) -> None:
        """Strike off a request that has ended, after its callbacks."""
        for callback in request.take_callbacks():
            self.tell(request, "callback")
            self.call(request, callback)
        if request.error is not None:
            self._note_failure(request)
        self._open.pop(request.id, None)
        if self._awaited and not self._open:
            with self._idle:
                self._idle.notify_all()

    def call(self, request: Request, callback: Callable[[], None]) -> None:
        """Call a callback; what it raises is logged, and harms nobody."""
        try:
            callback()
        except (Exception, SystemExit) as cause:
            log(logging.ERROR, request.id, "its callback raised %s", type(cause).__name__, cause=cause)

    def _note_failure(self, request: Request) -> None:
        log(logging.DEBUG, request.id, "%s", request.error)
        self._failed[request.id] = request.state.value
        if len(self._failed) > _MOST_FAILED:
            with contextlib.suppress(RuntimeError):  # another thread is at it too
                self._failed.pop(next(iter(self._failed)), None)

    def _doomed_all(self, hopeless: Sequence[Hopeless]) -> list[_Ending]:
        return [(one, State.ERROR, self._doomed(one, other)) for one, other in hopeless]

    def _doomed(self, request: Request, other: Request) -> DependencyError:
        return self._doomed_by(request, other.id, other.state.value, other.error)

    def _doomed_by(
        self, request: Request, other: int, state: str, cause: Exception | None = None
    ) -> DependencyError:
        what = "was cancelled" if state == State.CANCELLED.value else "failed"
        error = DependencyError(f"request {other}, which it depends on, {what}", request_id=request.id,
                                model=self.names[request.model])
        error.other_id = other
        error.__cause__ = cause.__cause__ if isinstance(cause, DependencyError) else cause  # no long chains of causes
        return error

    def _lost(self, request: Request, cause: DflowError) -> WorkerLostError:
        error = WorkerLostError(f"its model has no worker left: {cause.message}", request_id=request.id,
                                model=self.names[request.model])
        error.__cause__ = cause
        return error
