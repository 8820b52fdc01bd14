"""What the caller gets of transactions, and where it goes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from dflow_core.errors import DflowError
from dflow_core.message import FlowMsg


@dataclass(slots=True)
class Outcome:
    """One thing a transaction gave.

    Args:
        trans_id: Transaction.
        messages: One message per output; None where that output was skipped. Empty if there is an error, or if the
            transaction ended without a result of its own.
        error: What ended it.
        last: Whether the transaction ends with this.
        dropped: Whether it ended without any result.
        reason: Why, where a queue dropped a message of it.
        silent: Outputs that lacked something when an error ended it, where results are given output by output.
        versions: Versions of the nodes that were updated before it, by name; None if none was.
    """

    trans_id: int
    messages: tuple[FlowMsg | None, ...] = ()
    error: DflowError | None = None
    last: bool = False
    dropped: bool = False
    reason: str = ""
    silent: tuple[int, ...] = ()
    versions: Mapping[str, int] | None = None


@dataclass(slots=True)
class Channel:
    """Where outcomes of some transactions go: one for `feed`/`fetch`, one for each `map` or call.

    Args:
        endings: Whether transactions that end without a result, or after their last one, say so.
        by_output: Whether each message is a result of its own as soon as it comes, instead of those of all outputs.
    """

    endings: bool = True
    by_output: bool = False
    outcomes: deque[Outcome] = field(default_factory=deque)
    open: int = 0

    def has_outcomes(self) -> bool:
        """Whether there is something to take."""
        return bool(self.outcomes)

    def end(self, outcome: Outcome) -> None:
        """Take the last outcome of a transaction; where it says no more than that, a waiting result says it too."""
        self.open -= 1
        if outcome.error is None and self.outcomes and self.outcomes[-1].trans_id == outcome.trans_id:
            self.outcomes[-1].last = True
        elif outcome.error is not None or self.endings:
            self.outcomes.append(outcome)


@dataclass(slots=True)
class Counters:
    """Totals since the start: fed = delivered + failed + dropped + in flight; of the failed, some were cancelled."""

    fed: int = 0
    delivered: int = 0
    failed: int = 0
    dropped: int = 0
    late: int = 0
    cancelled: int = 0
