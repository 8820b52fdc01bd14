"""A running graph held up, started over, and given other parts: what is done to it as a whole while it runs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager

from dflow_core.errors import CancelledError, UsageError, WaitTimeoutError
from dflow_core.executor.backend import Backend
from dflow_core.executor.caller.client import GraphClient
from dflow_core.executor.deadlines import deadline_in, remaining
from dflow_core.model import PneModel

_RETIRE_LIMIT = 10.0
_WAIT = "a call takes longer than that: raise the timeout, or give the node a call_timeout"

_BUSY = "it is being updated, suspended or recovered by another thread"
_LATER = "wait for that, or raise the timeout"


class GraphControl:
    """Suspends, resumes and recovers one graph, and exchanges parts of it; one thing at a time, any thread.

    Args:
        graph: Its name.
        client: The caller's side of it.
        backend: The running graph.
    """

    def __init__(self, graph: str, client: GraphClient, backend: Backend) -> None:
        self._graph, self._client, self._backend = graph, client, backend
        self._lock, self._updates = threading.Lock(), threading.Lock()
        self._suspended = False

    @property
    def suspended(self) -> bool:
        """Whether it is held up."""
        return self._suspended

    def suspend(self, timeout: float) -> None:
        """Let every node finish the call at hand and begin no more; what is queued is kept, and feeding goes on.

        Raises:
            WaitTimeoutError: a call took longer, or something else is done to the graph; the graph then runs on.
        """
        with self._alone(self._lock, timeout):
            if not self._suspended:
                self._suspend(timeout)
                self._suspended = True

    def resume(self) -> None:
        """Let nodes go on. Nothing happens if they do."""
        with self._lock:
            if self._suspended:
                self._backend.resume()
                self._suspended = False

    def recover(self, timeout: float) -> int:
        """Throw away everything in flight, reset the functions, and go on with an empty graph.

        Returns:
            How many transactions ended with CancelledError by that.

        Raises:
            WaitTimeoutError: a call took longer; nothing was thrown away, and the graph runs on.
        """
        limit = deadline_in(timeout)
        with self._alone(self._lock, timeout), self._client.at_rest(timeout, discard=True):
            if not self._suspended:
                self._suspend(timeout)
            before = self._client.in_flight
            self._client.discard_all(_discarded)
            try:
                self._empty(limit)
            finally:
                self._suspended = False
                self._backend.resume()
            return before

    def updating(self, timeout: float) -> AbstractContextManager[None]:
        """One update at a time, from before anything is compiled until it is over.

        Raises:
            WaitTimeoutError: another one took longer.
        """
        return self._alone(self._updates, timeout, "another update of it is under way")

    def exchange(self, models: Mapping[str, PneModel], timeout: float, adopt: Callable[[], Mapping[str, int]]) -> int:
        """Put other models in the place of some, between two transactions.

        Args:
            models: By the names of those they replace.
            timeout: Seconds for everything in flight to end, once they have loaded.
            adopt: Called when they are in force, before anything else is fed; gives the versions of the nodes.

        Returns:
            The first transaction that the new ones work on.

        Raises:
            StartupError, WaitTimeoutError: they do not load, or the graph does not come to rest; nothing has changed.
            UsageError: the graph is suspended.
        """
        self._check_goes_on()
        exchange = self._backend.prepare(models)
        try:
            with self._alone(self._lock, timeout):
                self._check_goes_on()
                with self._client.at_rest(timeout) as first:
                    exchange.commit(_RETIRE_LIMIT)
                    self._client.note_exchange(first, models, adopt())
        except BaseException:
            exchange.abandon()
            raise
        exchange.finish()
        return first

    def _check_goes_on(self) -> None:
        if self._suspended:
            raise UsageError(f"graph {self._graph!r} is suspended", hint="resume it first")

    @contextlib.contextmanager
    def _alone(self, lock: threading.Lock, timeout: float, what: str = _BUSY) -> Iterator[None]:
        if not lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)):
            raise WaitTimeoutError(f"graph {self._graph!r}: {what}, for longer than {timeout:g} s", hint=_LATER)
        try:
            yield
        finally:
            lock.release()

    def _suspend(self, timeout: float) -> None:
        if not self._backend.suspend(timeout):
            self._backend.resume()
            raise WaitTimeoutError(f"graph {self._graph!r} could not be suspended within {timeout:g} s", hint=_WAIT)

    def _empty(self, limit: float | None) -> None:
        """Discard until nothing is left: who waited for room sends what it has once there is some."""
        while True:
            quiet = self._backend.discard(max(0.1, remaining(limit, 60.0)))
            self._client.drain()
            if quiet and self._backend.is_empty():
                return
            if quiet is None or (limit is not None and time.monotonic() > limit):
                raise WaitTimeoutError(f"graph {self._graph!r} could not be emptied within the limit", hint=_WAIT)


def _discarded(trans_id: int) -> CancelledError:
    return CancelledError("it was discarded, because the graph was recovered", trans_id=trans_id)

