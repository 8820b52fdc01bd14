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


@dataclass(frozen=True, slots=True)
class _Refused:
    """An item that cannot be run, in the place of a handle."""

    error: Exception
    size: int = 0

    def outcome(self) -> Exception:
        return self.error


_Entry: TypeAlias = "Handle | _Refused"


def stream(
    submit: Callable[[object], Handle], items: Iterable[object], window: Window, ordered: bool, keep_errors: bool,
    check: Callable[[], None],
) -> Iterator[Result | Exception]:
    """Submit items as results are taken, and yield what became of them.

    Args:
        submit: Asks for the result of an item.
        items: They.
        window: How many may be under way or wait to be yielded.
        ordered: Whether to yield in the order of the items; else as they end.
        keep_errors: Whether to yield exceptions instead of raising them.
        check: Called now and then while nothing ends; raises if nothing can.
    """
    line: _InOrder | _AsTheyEnd = _InOrder() if ordered else _AsTheyEnd(check)
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
                entry: _Entry
                try:
                    entry = submit(item)
                except (TensorError, PoolExhaustedError) as error:
                    entry = _Refused(error)
                line.add(entry)
                count += 1
                held += entry.size
            if not count:
                return
            entry = line.next()
            count -= 1
            held -= entry.size
            outcome = entry.outcome()
            if isinstance(outcome, Exception) and not keep_errors:
                raise outcome
            yield outcome
    finally:
        line.cancel()


class _InOrder:
    """Entries in the order they came."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque()
        self.add = self._entries.append
        self.next = self._entries.popleft

    def cancel(self) -> None:
        for entry in self._entries:
            if isinstance(entry, Handle):
                entry.cancel()


class _AsTheyEnd:
    """Entries in the order they end."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
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
                self._check()
                continue
            if isinstance(entry, Handle):
                del self._open[entry.id]
            return entry

    def cancel(self) -> None:
        for handle in self._open.values():
            handle.cancel()
