"""Transactions whose results wait for each other only so long: alignment at fetch (runtime-semantics.md section 8)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence

from dflow_core.executor.caller.cancelling import Traces
from dflow_core.executor.caller.transactions import Transaction, TransactionTable
from dflow_core.executor.error_messages import late_error
from dflow_core.executor.outcomes import Outcome
from dflow_core.message import FlowMsg, decode
from dflow_core.types import AlignLimits


class AlignedTable(TransactionTable):
    """Transactions in flight, where a set of results that stays incomplete is given up.

    What is given up ends its transaction with an error. The error holds the results there are, unless they are dropped.

    Args:
        inputs: Number of root inputs.
        outputs: Names of the root outputs.
        limits: When to give up.
        last_id, traces: As for `TransactionTable`.
        clock: Monotonic seconds.
    """

    def __init__(
        self, inputs: int, outputs: Sequence[str], limits: AlignLimits, last_id: int = 0,
        traces: Traces | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inputs, len(outputs), last_id, traces)
        self._names = tuple(outputs)
        self._limits = limits
        self._clock = clock
        self._since: dict[tuple[int, int], float] = {}  # oldest first
        self._labels: dict[int, set[int]] = {}

    def deadline(self) -> float | None:
        """When `expire` has something to do at the latest, on the clock; None if never."""
        if not self._limits.timeout or not self._since:
            return None
        return next(iter(self._since.values())) + self._limits.timeout

    def expire(self) -> None:
        """Give up the sets that have waited too long, or are too many: the lowest transaction first."""
        now, timeout, most = self._clock(), self._limits.timeout, self._limits.max_cache
        if timeout:
            old = itertools.takewhile(lambda item: now - item[1] >= timeout, self._since.items())
            for key in sorted(key for key, _ in old):
                self._give_up(key, f"within {timeout:g} s of the first of the results")
        while len(self._since) > most:
            self._give_up(min(self._since), f"before {most} other sets of results waited too")

    def _collect(self, transaction: Transaction, output: int, msg: FlowMsg) -> None:
        super()._collect(transaction, output, msg)
        trans_id, label = msg.info.key
        if label in transaction.results:
            self._since.setdefault((trans_id, label), self._clock())
            self._labels.setdefault(trans_id, set()).add(label)
        else:
            self._since.pop((trans_id, label), None)

    def _finish(self, trans_id: int, transaction: Transaction, outcome: Outcome) -> None:
        super()._finish(trans_id, transaction, outcome)
        for label in self._labels.pop(trans_id, ()):
            self._since.pop((trans_id, label), None)

    def _give_up(self, key: tuple[int, int], why: str) -> None:
        if key not in self._since:
            return  # ended together with another set of its transaction
        transaction = self._open[key[0]]
        row, came = transaction.results[key[1]], transaction.arrived[key[1]]
        missing = [self._names[port] for port in range(self._outputs) if port not in came]
        text = f"output{'s' * (len(missing) > 1)} {', '.join(missing)} did not come {why}"
        error = late_error(text, self._unfed(transaction), trans_id=key[0])
        if not self._limits.drop:
            error.outputs = tuple(None if msg is None else decode(msg) for msg in row)
        self.fail(key[0], error)
