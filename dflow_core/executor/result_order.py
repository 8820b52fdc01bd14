"""The order in which a stream gives out what its transactions gave."""

from __future__ import annotations

from collections.abc import Iterator

from dflow_core.executor.transactions import Outcome


class ResultOrder:
    """Holds outcomes back until those of earlier transactions have been given out."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._expected: dict[int, list[Outcome]] = {}
        self._ended: set[int] = set()

    @property
    def held(self) -> int:
        """Transactions that ended and wait for an earlier one."""
        return len(self._ended)

    def expect(self, trans_id: int) -> None:
        """Count a transaction as next in order."""
        if self._ordered:
            self._expected[trans_id] = []

    def add(self, outcome: Outcome) -> Iterator[Outcome]:
        """Take an outcome; gives those whose turn it is, without bare endings."""
        if not self._ordered:
            if outcome.error is not None or outcome.messages:
                yield outcome
            return
        if outcome.error is not None or outcome.messages:
            self._expected[outcome.trans_id].append(outcome)
        if outcome.last:
            self._ended.add(outcome.trans_id)
        while self._expected:
            first = next(iter(self._expected))
            ready = self._expected[first]
            while ready:
                yield ready.pop(0)
            if first not in self._ended:
                return
            self._ended.discard(first)
            del self._expected[first]
