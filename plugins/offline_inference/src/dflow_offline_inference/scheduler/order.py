"""In which order the waiting requests of one model go: priority with ageing, first come first served within one.

A request's rank is the time it came minus what its priority is worth (`ageing` seconds each). All requests age alike,
so their order never changes while they wait, and a heap is enough: whoever comes later than a request by what the
difference in priority is worth goes behind it, so that no request waits for ever.
"""

from __future__ import annotations

import heapq
from collections.abc import Container
from typing import TypeAlias

from dflow_offline_inference.requests import WAITING, Request

_LEAST_SWEEP = 64


Place: TypeAlias = tuple[float, int, Request]
"""A request's place in the order: its rank, then its number; the lowest goes first."""


def rank_of(priority: float, arrived: float, ageing: float) -> float:
    """The rank of a request.

    Args:
        priority: Higher goes first.
        arrived: When it came, seconds.
        ageing: Seconds of waiting that are worth one level of priority.
    """
    return arrived - priority * ageing


class WaitingOrder:
    """The waiting requests of one model. Those that ended meanwhile are skipped, and swept out now and then."""

    def __init__(self) -> None:
        self._heap: list[Place] = []
        self._ended = 0

    def push(self, request: Request) -> None:
        """Take a request in."""
        heapq.heappush(self._heap, (request.rank, request.id, request))

    def head(self) -> Place | None:
        """Whose turn it is; None if nobody waits."""
        heap = self._heap
        while heap and heap[0][2].state is not WAITING:
            heapq.heappop(heap)
            self._ended = max(0, self._ended - 1)
        return heap[0] if heap else None

    def pop(self) -> None:
        """Take out the head."""
        heapq.heappop(self._heap)

    def note_end(self) -> None:
        """A request in here ended while it waited."""
        self._ended += 1
        if self._ended > max(_LEAST_SWEEP, len(self._heap) // 2):
            self._heap = [place for place in self._heap if place[2].state is WAITING]
            heapq.heapify(self._heap)
            self._ended = 0

    def live(self, leaving: Container[int]) -> int:
        """How many still wait and are not among those that leave, by id; counts them one by one."""
        waiting = (place[2] for place in self._heap if place[2].state is WAITING)
        return sum(request.id not in leaving for request in waiting)
