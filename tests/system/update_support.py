"""Versions of a function, and load on a graph while they are exchanged."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import numpy as np

import dflow_core as df
from dflow_core.testing.waiting import wait_until


def adds(number: int):
    """A function that gives so much, whatever it gets."""

    @df.pyflow
    def worker(x):
        return x * 0 + number

    return worker


class Load:
    """Transactions one after the other, some in flight at any time, until it is stopped.

    Args:
        graph: A running graph with one input.
        in_flight: How many.
        errors: `raise`, or `return` to go on after errors.
    """

    def __init__(self, graph: df.FlowGraph, in_flight: int, errors: str) -> None:
        self._graph, self._in_flight, self._errors = graph, in_flight, errors
        self._stop = threading.Event()
        self.seen: list[object] = []
        self.failures: list[BaseException] = []
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            items = (np.array(0) for _ in iter(self._stop.is_set, True))
            self.seen.extend(self._graph.map(items, in_flight=self._in_flight, errors=self._errors))
        except BaseException as error:
            self.failures.append(error)

    def wait_for_more(self, count: int) -> None:
        """Wait until so many more transactions have ended."""
        goal = self._graph.counters.delivered + self._graph.counters.failed + count
        wait_until(lambda: self._graph.counters.delivered + self._graph.counters.failed >= goal or self.failures, 60)

    def stop(self) -> None:
        """Feed no more, and wait until everything has ended."""
        self._stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive() and not self.failures, self.failures

    def values(self) -> list[np.ndarray]:
        """The results, in the order in which they were fed."""
        return [result for result in self.seen if isinstance(result, np.ndarray)]


@contextlib.contextmanager
def load(graph: df.FlowGraph, in_flight: int = 8, errors: str = "raise") -> Iterator[Load]:
    """Load on a graph inside the block; it ends before the graph does."""
    made = Load(graph, in_flight, errors)
    made.thread.start()
    try:
        yield made
    finally:
        made.stop()
