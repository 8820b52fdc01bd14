"""Which ready requests of a model are run together, and when. No I/O, no clock, no lock.

Requests that can share a call wait for each other until the batch is full, or until the first of them has waited long
enough. Among batches that may go, the one whose first request is oldest goes first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from dflow_offline_inference.requests import GroupKey, Request

_Ready = tuple[int, float, Request]


class _Group:
    """Requests that can share a call, with the number of their rows."""

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
        self._groups: dict[GroupKey | None, _Group] = {}
        self._count = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, request: Request, now: float) -> bool:
        """Take in a request; whether somebody who waits for work should look."""
        self._count += 1
        group = self._groups.get(request.group) or _Group()
        group.rows += request.rows
        group.ready.append((self._count, now, request))
        self._groups[request.group] = group
        return len(group.ready) == 1 or request.group is None or group.rows >= self.batch

    def take(self, now: float, *, drain: bool = False) -> Sequence[Request]:
        """The next batch that may go; empty if none may yet.

        Args:
            now: Seconds.
            drain: Whether those that are not full may go at once.
        """
        best: tuple[int, GroupKey | None] | None = None
        for key, group in self._groups.items():
            number, since, _ = group.ready[0]
            may_go = drain or key is None or group.rows >= self.batch or now - since >= self._patience
            if may_go and (best is None or number < best[0]):
                best = (number, key)
        return () if best is None else self._taken(best[1])

    def due(self) -> float:
        """When the next batch may go for having waited, seconds; infinite if nothing waits."""
        return min((group.ready[0][1] + self._patience for group in self._groups.values()), default=math.inf)

    def remove(self, request: Request) -> None:
        """Take out a request that ended before it ran."""
        group = self._groups.get(request.group)
        for entry in () if group is None else group.ready:
            if entry[2] is request:
                assert group is not None
                group.ready.remove(entry)
                self._shrink(request.group, request.rows)
                return

    def _taken(self, key: GroupKey | None) -> Sequence[Request]:
        group = self._groups[key].ready
        if key is None:
            alone = group.popleft()[2]
            self._shrink(key, alone.rows)
            return (alone,)
        taken: list[Request] = []
        rows = 0
        while group:
            request = group[0][2]
            if taken and rows + request.rows > self.batch:
                break
            group.popleft()
            taken.append(request)
            rows += request.rows
        self._shrink(key, rows)
        return taken

    def _shrink(self, key: GroupKey | None, rows: int) -> None:
        self._groups[key].rows -= rows
        if not self._groups[key].ready:
            del self._groups[key]
