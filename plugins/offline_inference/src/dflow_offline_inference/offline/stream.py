"""Streaming items through a model with a bounded number of requests under way.

Threads that hand small requests to each other should do so by the dozen: each change of threads costs as much as a
request. So small ones get a wider window than the slots of their model need, up to a number of bytes.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dflow_core.errors import PoolExhaustedError, TensorError
from dflow_offline_inference.offline.handle import Handle
from dflow_offline_inference.requests import Result

_SLICE = 1.0

_Entry: TypeAlias = "Handle | Exception"


@dataclass(frozen=True, slots=True)
class Window:
    """How many requests may be under way or wait to be yielded.

    Args:
        least: So many always may.
        most: So many may while they hold less than `spare` bytes.
    """

    least: int
    most: int
    spare: int = 1 << 22


def stream(
    submit: Callable[[object], Handle], items: Iterable[object], window: Window, ordered: bool, keep_errors: bool
) -> Iterator[Result | Exception]:
    """Submit items as results are taken, and yield what became of them.

    Args:
        submit: Asks for the result of an item.
        items: They.
        window: How many may be under way or wait to be yielded.
        ordered: Whether to yield in the order of the items; else as they end.
        keep_errors: Whether to yield exceptions instead of raising them.
    """
    line: _Line = _InOrder() if ordered else _AsTheyEnd()
    source = iter(items)
    exhausted = False
    count = held = 0
    try:
        while True:
            while not exhausted and count < (window.most if held < window.spare else window.least):
                try:
                    item = next(source)
                except StopIteration:
                    exhausted = True
                    break
                entry = _submitted(submit, item)
                line.add(entry)
                count += 1
                if isinstance(entry, Handle):
                    held += entry.size
            if not count:
                return
            entry = line.next()
            count -= 1
            if isinstance(entry, Handle):
                held -= entry.size
                outcome = entry.outcome()
            else:
                outcome = entry
            if isinstance(outcome, Exception) and not keep_errors:
                raise outcome
            yield outcome
    finally:
        line.cancel()


def _submitted(submit: Callable[[object], Handle], item: object) -> _Entry:
    """The handle of an item, or why it cannot be run."""
    try:
        return submit(item)
    except (TensorError, PoolExhaustedError) as error:
        return error


class _InOrder:
    """Entries in the order they came."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()

    def add(self, entry: _Entry) -> None:
        self._entries.append(entry)

    def next(self) -> _Entry:
        return self._entries.popleft()

    def cancel(self) -> None:
        for entry in self._entries:
            if isinstance(entry, Handle):
                entry.cancel()


class _AsTheyEnd:
    """Entries in the order they end."""

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[_Entry] = queue.SimpleQueue()
        self._open: dict[int, Handle] = {}

    def add(self, entry: _Entry) -> None:
        if isinstance(entry, Handle):
            self._open[entry.id] = entry
            entry.add_done_callback(self._ended.put)
        else:
            self._ended.put(entry)

    def next(self) -> _Entry:
        while True:
            try:
                entry = self._ended.get(timeout=_SLICE)
            except queue.Empty:
                continue
            if isinstance(entry, Handle):
                del self._open[entry.id]
            return entry

    def cancel(self) -> None:
        for handle in self._open.values():
            handle.cancel()


_Line: TypeAlias = "_InOrder | _AsTheyEnd"
