"""A request: what was asked of a model, and what became of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from dflow_core.types import Array
from dflow_offline_inference.requests.lifecycle import Lifecycle, State

_SLICE = 1.0
"""Longest uninterrupted wait, seconds: whoever was to wake us may have been interrupted himself."""

GroupKey: TypeAlias = tuple[object, ...]
"""Requests with equal keys can share a batch."""


class Result(Mapping[str, Array]):
    """The outputs of one request, by name and in order; `result[0]` is the first.

    Args:
        request_id: The request.
        names: Names of the outputs.
        arrays: The outputs, which belong to the caller.
        context: What the caller gave along.
    """

    __slots__ = ("arrays", "context", "names", "request_id")

    def __init__(
        self, request_id: int, names: Sequence[str], arrays: Sequence[Array], context: object = None
    ) -> None:
        self.request_id = request_id
        self.names = tuple(names)
        self.arrays = tuple(arrays)
        self.context = context

    def __getitem__(self, key: str | int) -> Array:
        if isinstance(key, int):
            return self.arrays[key]
        try:
            return self.arrays[self.names.index(key)]
        except ValueError:
            raise KeyError(f"{key!r} is no output; there are {', '.join(self.names)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={array.dtype}{list(array.shape)}" for name, array in self.items())
        return f"Result(request {self.request_id}: {shapes})"


class Request(Lifecycle):
    """One request. Whoever holds it may read it; only the layers change it.

    Args:
        request_id, at: See `Lifecycle`.
        model: Number of its model.
        inputs: One array per input, in order; let go when the request ends.
        rows: Rows it takes in a batch.
        group: What it can share a batch with; None runs alone.
        padded: Whether its inputs are filled up to a bucket, and its outputs cut.
        memory: Bytes it takes on the device.
        rank: Who goes first; the lowest does.
        context: What comes back with the result.
        chain: Requests with the same chain run one after the other; None for none.
    """

    __slots__ = (
        "__weakref__", "_callbacks", "_waiters", "blockers", "chain", "context", "deadline", "error", "group",
        "inputs", "memory", "model", "padded", "rank", "result", "rows",
    )

    def __init__(
        self, request_id: int, at: float, model: int, inputs: tuple[Array, ...], rows: int = 1,
        group: GroupKey | None = None, padded: bool = False, memory: int = 0, rank: float = 0.0,
        context: object = None, chain: object = None,
    ) -> None:
        Lifecycle.__init__(self, request_id, at)
        self.model = model
        self.inputs = inputs
        self.rows = rows
        self.group = group
        self.padded = padded
        self.memory = memory
        self.rank = rank
        self.context = context
        self.chain = chain
        self.blockers = 0
        self.deadline: float | None = None
        self.result: Result | None = None
        self.error: Exception | None = None
        self._waiters: list[threading.Lock] | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    def end(
        self, to: State, at: float, result: Result | None = None, error: Exception | None = None
    ) -> State | None:
        """End it, unless that was done before, and wake whoever waits.

        Returns:
            The state it was in; None if it had ended already, and nothing was changed.
        """
        with self._lock:
            before = self.state
            if not before.following:
                return None
            self.result, self.error = result, error
            self._move(to, at)
            waiters, self._waiters = self._waiters, None
            self.inputs = ()
        for waiter in waiters or ():
            waiter.release()
        return before

    def wait(self, timeout: float | None) -> bool:
        """Wait until it has ended; whether it has within `timeout` seconds (None is no limit)."""
        waiter = threading.Lock()
        waiter.acquire()
        with self._lock:
            if self.ended:
                return True
            if self._waiters is None:
                self._waiters = []
            self._waiters.append(waiter)
        limit = None if timeout is None else time.monotonic() + timeout
        try:
            while self.state.following:
                left = _SLICE if limit is None else min(_SLICE, limit - time.monotonic())
                if left <= 0:
                    return False
                waiter.acquire(timeout=left)
            return True
        finally:
            self._forget(waiter)

    def _forget(self, waiter: threading.Lock) -> None:
        with self._lock, contextlib.suppress(ValueError):
            if self._waiters is not None:
                self._waiters.remove(waiter)

    def when_ended(self, callback: Callable[[], None]) -> bool:
        """Have a function called after the end; False if it has ended already and nobody will."""
        with self._lock:
            if self.ended:
                return False
            if self._callbacks is None:
                self._callbacks = []
            self._callbacks.append(callback)
            return True

    def take_callbacks(self) -> Sequence[Callable[[], None]]:
        """What is to be called now that it has ended; each is given out once."""
        if self._callbacks is None:
            return ()
        with self._lock:
            callbacks, self._callbacks = self._callbacks, None
        return callbacks or ()
