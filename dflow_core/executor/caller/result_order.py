"""The order in which a stream gives out what its transactions gave."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_core.executor.outcomes import Outcome


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

    def add(self, outcome: Outcome) -> Sequence[Outcome]:
        """Take an outcome; gives those whose turn it is, without bare endings."""
        says = outcome.error is not None or bool(outcome.messages)
        if not self._ordered:
            return (outcome,) if says else ()
        expected = self._expected
        if says:
            expected[outcome.trans_id].append(outcome)
        if outcome.last:
            self._ended.add(outcome.trans_id)
        given: list[Outcome] = []
        while expected:
            first = next(iter(expected))
            given += expected[first]
            if first not in self._ended:
                expected[first].clear()
                break
            self._ended.discard(first)
            del expected[first]
        return given
