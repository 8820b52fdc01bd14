"""Ends of transactions that no message brings: exceptions that functions raised, and sets of results given up."""

from __future__ import annotations

import math
import time

from dflow_core.executor.backend import Backend
from dflow_core.executor.caller.aligned_table import AlignedTable
from dflow_core.executor.caller.transactions import TransactionTable
from dflow_core.executor.exceptions import error_of_note


class OtherEnds:
    """What whoever pumps has to look at besides messages.

    Args:
        table: The transactions.
        backend: The running graph.
    """

    def __init__(self, table: TransactionTable, backend: Backend) -> None:
        self._table, self._backend = table, backend
        self._aligned = table if isinstance(table, AlignedTable) else None

    @classmethod
    def of(cls, table: TransactionTable, backend: Backend, catches: bool) -> OtherEnds | None:
        """For a graph; None where messages alone end transactions.

        Args:
            table: The transactions.
            backend: The running graph.
            catches: Whether functions may raise exceptions.
        """
        return cls(table, backend) if catches or isinstance(table, AlignedTable) else None

    def patience(self) -> float:
        """Seconds that may pass until `settle` is called again."""
        overdue = self._aligned.deadline() if self._aligned is not None else None
        return math.inf if overdue is None else overdue - time.monotonic()

    def settle(self) -> None:
        """End what is to end."""
        for note in self._backend.take_exceptions():
            self._table.fail(note.trans_id, error_of_note(note))
        if self._aligned is not None:
            self._aligned.expire()
