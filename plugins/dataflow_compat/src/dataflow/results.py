"""Results by output: what was fetched of one output waits here for who asks for another one.

A fetch may ask for some outputs only, and the messages of each output come in their own order. The core gives
transactions; this puts their messages into one line for each output.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from dflow_core.errors import DflowError, WaitTimeoutError
from dflow_core.message import FlowMsg

__all__ = ["Item", "Results"]

Item: TypeAlias = FlowMsg | DflowError
Fetched: TypeAlias = "tuple[Sequence[Item | None], DflowError | None, Sequence[int]]"
"""Messages by output, or an error and the outputs that lacked something when it came."""

FetchNext: TypeAlias = Callable[[float | None], Fetched]
"""Waits so many seconds (None for ever) and gives what comes next."""

_SLICE = 1.0


class Results:
    """One line of results for each output. Any thread.

    Args:
        outputs: How many outputs there are.
    """

    def __init__(self, outputs: int) -> None:
        self._lines: list[deque[Item]] = [deque() for _ in range(outputs)]
        self._order = list(range(outputs))
        self._is_empty = True
        self._changed = threading.Condition()
        self._is_fetching = False

    def take(self, wanted: Sequence[int], fetch_next: FetchNext, timeout: float | None) -> list[Item]:
        """The next item of each wanted output; of none of them unless all are there.

        Args:
            wanted: Outputs, each once.
            fetch_next: How to get more.
            timeout: Seconds to wait at most; None is no limit.

        Raises:
            WaitTimeoutError: they were not there within the limit. Nothing is taken.
            DflowError: whatever else `fetch_next` raises.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._changed:
                if not self._is_empty and all(self._lines[output] for output in wanted):
                    return self._popped(wanted)
                is_other_fetching, self._is_fetching = self._is_fetching, True
                if is_other_fetching:
                    left = _SLICE if deadline is None else max(0.0, deadline - time.monotonic())
                    if not self._changed.wait(min(left, _SLICE)) and left < _SLICE:
                        raise WaitTimeoutError("nothing came within the limit: another thread waits for results too")
                    continue
            try:
                direct = self._fetch(wanted, fetch_next, deadline)
            finally:
                with self._changed:
                    self._is_fetching = False
                    self._changed.notify_all()
            if direct is not None:
                return direct

    def clear(self) -> None:
        """Let everything go."""
        with self._changed:
            for line in self._lines:
                line.clear()
            self._is_empty = True

    def _fetch(self, wanted: Sequence[int], fetch_next: FetchNext, deadline: float | None) -> list[Item] | None:
        messages, error, silent = fetch_next(None if deadline is None else max(0.0, deadline - time.monotonic()))
        if self._is_empty and error is None and wanted == self._order:
            whole = [msg for msg in messages if msg is not None]
            if len(whole) == len(wanted):
                return list[Item](whole)
        items: Sequence[Item | None] = messages if error is None else self._spread(error, silent)
        with self._changed:
            for item, line in zip(items, self._lines):
                if item is not None:
                    line.append(item)
                    self._is_empty = False
        return None

    def _spread(self, error: DflowError, silent: Sequence[int]) -> list[Item | None]:
        """An error in the place of what did not come of its transaction; everywhere if it is of none."""
        return [error if output in silent or not silent else None for output in self._order]

    def _popped(self, wanted: Sequence[int]) -> list[Item]:
        taken = [self._lines[output].popleft() for output in wanted]
        self._is_empty = not any(self._lines)
        return taken
