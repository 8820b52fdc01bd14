"""A client whose `fetch` gives results in the order in which they were fed, whichever instance was first."""

from __future__ import annotations

import heapq

from dflow_core.executor.client import GraphClient
from dflow_core.executor.deadlines import deadline_in
from dflow_core.executor.outcomes import Channel, Outcome


class InOrder:
    """Holds outcomes back until no earlier transaction is in flight."""

    def __init__(self) -> None:
        self._held: list[tuple[int, int, Outcome]] = []
        self._number = 0

    def add(self, outcome: Outcome) -> None:
        """Take an outcome; one that says only that its transaction has ended is let go."""
        if outcome.error is not None or outcome.messages:
            self._number += 1  # several of one transaction keep their order
            heapq.heappush(self._held, (outcome.trans_id, self._number, outcome))

    def next(self, oldest: int | None) -> Outcome | None:
        """The next outcome in order, or None.

        Args:
            oldest: The oldest transaction in flight; None if there is none.
        """
        if self._held and (oldest is None or self._held[0][0] <= oldest):
            return heapq.heappop(self._held)[2]
        return None


class OrderedClient(GraphClient):
    """A GraphClient for the option `ordered`; its arguments are those of GraphClient."""

    def __init__(self, *args: object, **named: object) -> None:
        super().__init__(*args, **named)  # type: ignore[arg-type]  # checked where it is called
        self._main = Channel()  # with endings: one without a result lets the next ones pass
        self._in_order = InOrder()

    def fetch(self, timeout: float | None = None) -> Outcome:
        self._check_process()
        deadline = deadline_in(timeout)
        while True:
            with self._mutex:
                outcome = self._in_order.next(self._table.oldest_of(self._main))
            if outcome is not None:
                return outcome
            arrived = self._pump.next(self._main, deadline)
            with self._mutex:
                self._in_order.add(arrived)
