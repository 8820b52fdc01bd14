"""Which ready requests of a model are run together, and when. No I/O, no clock, no lock.

Requests that can share a call wait for each other until the batch is full, or until the first of them has waited long
enough. Among batches that may go, the one whose first request is oldest goes first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from dflow_offline_inference.requests import GroupKey, Request

_Ready = tuple[float, Request]


class _Group:
    """Requests that can share a call, each with the time it came, and the number of their rows."""

    __slots__ = ("ready", "rows")

    def __init__(self) -> None:
        self.ready: deque[_Ready] = deque()
        self.rows = 0


class Grouping:
    """The ready requests of one model.

    Args:
        batch: Rows that share a call.
        patience: Seconds the first request of a batch waits for others.
    """

    def __init__(self, batch: int, patience: float) -> None:
        self.batch = batch
        self._patience = patience
        self._groups: dict[GroupKey, _Group] = {}
        self._alone: deque[_Ready] = deque()

    def __bool__(self) -> bool:
        return bool(self._groups or self._alone)

    def add(self, request: Request, now: float) -> bool:
        """Take in a request; whether somebody who waits for work should look."""
        if request.group is None:
            self._alone.append((now, request))
            return True
        group = self._groups.get(request.group)
        if group is None:
            group = self._groups[request.group] = _Group()
        group.rows += request.rows
        group.ready.append((now, request))
        return len(group.ready) == 1 or group.rows >= self.batch

    def take(self, now: float, *, drain: bool = False) -> Sequence[Request]:
        """The next batch that may go; empty if none may yet.

        Args:
            now: Seconds.
            drain: Whether those that are not full may go at once.
        """
        oldest = self._alone[0][0] if self._alone else math.inf
        best: GroupKey | None = None
        for key, group in self._groups.items():
            since = group.ready[0][0]
            if since < oldest and (drain or group.rows >= self.batch or now - since >= self._patience):
                oldest, best = since, key
        if best is not None:
            return self._taken(best)
        return (self._alone.popleft()[1],) if self._alone else ()

    def due(self) -> float:
        """When the next batch may go for having waited, seconds; infinite if nothing waits."""
        return min((group.ready[0][0] + self._patience for group in self._groups.values()), default=math.inf)

    def remove(self, request: Request) -> None:
        """Take out a request that ended before it ran."""
        key = request.group
        group = None if key is None else self._groups.get(key)
        ready = self._alone if key is None else () if group is None else group.ready
        entry = next((entry for entry in ready if entry[1] is request), None)
        if entry is None:
            return
        if group is None or key is None:
            self._alone.remove(entry)
        else:
            group.ready.remove(entry)
            self._shrink(key, request.rows)

    def _taken(self, key: GroupKey) -> Sequence[Request]:
        ready = self._groups[key].ready
        taken: list[Request] = []
        rows = 0
        while ready:
            request = ready[0][1]
            if taken and rows + request.rows > self.batch:
                break
            ready.popleft()
            taken.append(request)
            rows += request.rows
        self._shrink(key, rows)
        return taken

    def _shrink(self, key: GroupKey, rows: int) -> None:
        group = self._groups[key]
        group.rows -= rows
        if not group.ready:
            del self._groups[key]
