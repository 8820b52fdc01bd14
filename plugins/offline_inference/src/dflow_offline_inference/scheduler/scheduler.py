"""The scheduler: waits, counts and hands over; what it decides is in `admission`.

There is no thread that looks for work: whoever submits a request or frees a slot also hands over what may run now. A
periodic `scan` by somebody else exists only as an upper bound, for what an interrupt left lying.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from dflow_core.errors import ClosedError, QueueFullError
from dflow_offline_inference.requests import Event, EventSink, Request, State
from dflow_offline_inference.scheduler.admission import Admission, Answers, Hopeless

_SLICE = 1.0


class Scheduler:
    """Holds requests until they may run. Thread-safe.

    Args:
        admission: Decides.
        hand_over: For each model, takes a request that may run and what the time is; called under the scheduler's
            lock, must not block. From then on the request is no longer the scheduler's, which only keeps its slot
            until it is told of the end.
        max_waiting: Requests that may wait at once.
        taken: Told of each request that was taken in, before anything else happens to it.
        may_wait: Whether this thread may wait for room; asked only when there is none.
        emit: Takes events, if anybody watches.
    """

    def __init__(
        self, admission: Admission, hand_over: Sequence[Callable[[Request, float], None]], max_waiting: int,
        taken: Callable[[Request], None], may_wait: Callable[[], bool], emit: EventSink | None = None,
    ) -> None:
        self._admission = admission
        self._hand_over = hand_over
        self._max_waiting = max_waiting
        self._taken = taken
        self._may_wait = may_wait
        self._emit = emit
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._blocked = 0
        self._closed = False

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return self._admission.waiting

    def used(self, model: int) -> int:
        """Slots of a model that are in use."""
        return self._admission.used(model)

    def memory_used(self, device: str) -> int:
        """Bytes of a device that requests under way take."""
        return self._admission.memory_used(device)

    def submit(self, request: Request, after: Sequence[Request], timeout: float | None) -> Request | None:
        """Take in a request, and hand over whatever may run now.

        Args:
            request: The request.
            after: Requests it depends on.
            timeout: Seconds to wait for room among the waiting; None is no limit.

        Returns:
            A request it depends on that has ended badly; then it was not taken in.

        Raises:
            QueueFullError: no room within the limit; it was not taken in.
            ClosedError: the scheduler was closed.
        """
        with self._lock:  # the lock of `_room`, by its own methods: those of a condition cost two calls more
            if self._admission.waiting >= self._max_waiting:
                self._wait_for_room(request, timeout)
            if self._closed:
                raise ClosedError("offline inference was closed")
            try:
                failed = self._admission.add(request, after)
                if failed is None:
                    self._taken(request)
                    if self._emit is not None:
                        self._emit(Event(request.id, "Scheduler", "waiting"))
                    if self._admission.leaving:
                        self._pass_on()
            except BaseException:
                self._admission.recount()
                raise
        return failed

    def release(self, requests: Sequence[Request]) -> Sequence[Hopeless]:
        """Requests that were under way have ended; hand over whatever may run now.

        Returns:
            Requests that can never run.
        """
        with self._lock:
            try:
                hopeless = self._admission.release(requests)
                if self._emit is not None:
                    for request in requests:
                        self._emit(Event(request.id, "Scheduler", "release"))
                self._pass_on()
            except BaseException:
                self._admission.recount()
                raise
        return hopeless

    def ended(self, request: Request, before: State) -> Sequence[Hopeless]:
        """A request has ended that did not come to run; see `release`."""
        with self._lock:
            try:
                hopeless = self._admission.ended(request, before)
                self._pass_on()
            except BaseException:
                self._admission.recount()
                raise
        return hopeless

    def scan(self) -> None:
        """Hand over whatever may run now."""
        with self._lock:
            try:
                self._admission.choose()
                self._pass_on()
            except BaseException:
                self._admission.recount()
                raise

    def repair(self) -> None:
        """Put right what an interrupted call may have left wrong."""
        with self._lock:
            self._admission.recount()

    def can_schedule(self, request: Request) -> Answers:
        """Whether a request may run now, in three answers."""
        with self._lock:
            if request.state is not State.WAITING:
                return Answers(True, True, True, "")
            return self._admission.answers(request)

    def close(self) -> None:
        """Take in nothing more; those who wait for room are told."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def _pass_on(self) -> None:
        """Hand over those who leave, and tell who waits for room."""
        leaving = self._admission.leaving
        if leaving:
            now = time.monotonic()
            while leaving:
                request = leaving[0]
                if self._emit is not None:
                    self._emit(Event(request.id, "Scheduler", "can_schedule"))
                self._hand_over[request.model](request, now)
                leaving.popleft()
        if self._blocked and self._admission.waiting < self._max_waiting:
            self._room.notify(self._max_waiting - self._admission.waiting)

    def _wait_for_room(self, request: Request, timeout: float | None) -> None:
        if not self._may_wait():
            timeout = 0.0
        limit = None if timeout is None else time.monotonic() + timeout
        self._blocked += 1
        try:
            while self._admission.waiting >= self._max_waiting and not self._closed:
                left = _SLICE if limit is None else min(_SLICE, limit - time.monotonic())
                if left <= 0:
                    raise QueueFullError(
                        f"{self._max_waiting} requests wait already",
                        hint="submit more slowly, wait longer (timeout=), or raise max_waiting",
                    )
                self._room.wait(left)
        finally:
            self._blocked -= 1
