"""Graphs that user code calls by value: `self.detect(image)`.

What stands behind a call (`spi.RunContext`, `spi.GraphCall`) is known here by its form only, so that a script which
builds graphs does not load it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol

from dflow_core.errors import ClosedError, DroppedError, UsageError, WaitTimeoutError
from dflow_core.message import FlowMsg, decode


class Call(Protocol):
    """A call under way."""

    def results(self, timeout: float | None = None) -> Sequence[Sequence[FlowMsg | None]]:
        """Wait for its end."""

    def cancel(self) -> None:
        """Let it go."""


class Caller(Protocol):
    """What a function works in."""

    def call_graph(self, key: str, inputs: Sequence[object]) -> Call:
        """Begin a call."""


_running: ContextVar[Caller] = ContextVar("dflow_running")


@contextlib.contextmanager
def running(context: Caller) -> Iterator[None]:
    """Let graphs that user code calls in this block be called as part of a call."""
    token = _running.set(context)
    try:
        yield
    finally:
        _running.reset(token)


class InvokedGraph:
    """A graph or model that a function calls while it works.

    A process point or a FlowGraph that is given to `Class.fnode(...)` arrives in the executor as one of these. For a
    function, write `detect = df.InvokedGraph("detect")` beside it, and give its node
    `node.point.add_invoked_closure("detect", point)`.

    Args:
        key: What `add_invoked_closure` calls it.
    """

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self, *values: object, timeout: float | None = None) -> object:
        """Call it and wait for the result.

        Args:
            values: One for each input.
            timeout: Seconds; None waits until it ends.

        Returns:
            The value of its output, or a tuple with one for each; None where a branch was not taken.

        Raises:
            NodeError: a node in there failed; names it, with its traceback.
            InstanceLostError: an executor in there died.
            WaitTimeoutError: it did not end in time, and was cancelled.
            DroppedError: no node in there sent anything.
            UsageError: another number of values, no such graph, or outside a call of the function.
        """
        return self.start(*values).result(timeout)

    def start(self, *values: object) -> InvokedCall:
        """Begin a call and go on; several may be under way at once. Arguments and errors as for a call."""
        context = _running.get(None)
        if context is None:
            raise UsageError(
                f"graph {self.key!r} can be called only while a function works on a message, and in its thread",
                hint="call it in the function itself; start() lets several calls run at once",
            )
        return InvokedCall(self.key, context.call_graph(self.key, values))

    def __repr__(self) -> str:
        return f"InvokedGraph({self.key!r})"


class InvokedCall:
    """A call of an InvokedGraph that was started. Any thread may wait for it.

    Args:
        key: What the graph is called by.
        call: The call.
    """

    def __init__(self, key: str, call: Call) -> None:
        self._key = key
        self._call = call

    def result(self, timeout: float | None = None) -> object:
        """Wait for the only result; errors as for a call of the graph.

        Raises:
            UsageError: there are several results; use `results`.
        """
        found = self.results(timeout)
        if not found:
            raise DroppedError(f"no node of graph {self._key!r} sent anything")
        if len(found) > 1:
            raise UsageError(
                f"graph {self._key!r} gave {len(found)} results where one was expected",
                hint="use start(...).results(), or let a node in there gather the parts",
            )
        return found[0]

    def results(self, timeout: float | None = None) -> list[object]:
        """Wait for the end, and give all results: several where a node in there makes parts, none where none sends."""
        try:
            rows = self._call.results(timeout)
        except (WaitTimeoutError, ClosedError):
            self._call.cancel()
            raise
        return [_value_of(row) for row in rows]

    def cancel(self) -> None:
        """Let it go: its results are dropped, and who waits for it gets a ClosedError. Idempotent."""
        self._call.cancel()


def _value_of(row: Sequence[FlowMsg | None]) -> object:
    values = tuple(None if msg is None else decode(msg) for msg in row)
    return values[0] if len(values) == 1 else values
