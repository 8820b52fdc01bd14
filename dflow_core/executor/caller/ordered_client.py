"""A client whose `fetch` gives results in the order in which they were fed, whichever instance was first."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from dflow_core.executor.caller.client import GraphClient
from dflow_core.executor.outcomes import Channel, Outcome


class InOrder(deque[Outcome]):
    """Outcomes of a channel, which holds them back until no earlier transaction is in flight.

    It is empty while there is none whose turn it is; `len` counts all. What ends, and what that gave, become visible
    together, because both change under the lock of the client.

    Args:
        oldest: Gives the oldest transaction in flight, or None.
    """

    def __init__(self, oldest: Callable[[], int | None]) -> None:
        super().__init__()
        self._oldest = oldest
        self._held: list[tuple[int, int, Outcome]] = []
        self._number = 0

    def append(self, outcome: Outcome, /) -> None:
        """Take an outcome."""
        self._number += 1  # several of one transaction keep their order
        heapq.heappush(self._held, (outcome.trans_id, self._number, outcome))

    def popleft(self) -> Outcome:
        """The next outcome in order."""
        return heapq.heappop(self._held)[2]

    def clear(self) -> None:
        """Let all go."""
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)

    def __bool__(self) -> bool:
        if not self._held:
            return False
        oldest = self._oldest()
        return oldest is None or self._held[0][0] <= oldest


class OrderedChannel(Channel):
    """A channel in order: a transaction that gave nothing, or has given all, just lets others pass."""

    def end(self, outcome: Outcome) -> None:
        self.open -= 1
        if outcome.error is not None:
            self.outcomes.append(outcome)


class OrderedClient(GraphClient):
    """A GraphClient for the option `ordered`; its arguments are those of GraphClient."""

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]  # checked where it is called
        self._main = OrderedChannel(endings=False, outcomes=InOrder(lambda: self._table.oldest_of(self._main)))
