"""Ends transactions before their time: because somebody cancels them, or because of their deadlines."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from dflow_core.errors import CancelledError, DeadlineError, DflowError
from dflow_core.executor.backend import Backend
from dflow_core.executor.deadline_keeper import DeadlineKeeper
from dflow_core.executor.transactions import Channel, TransactionTable

_WHERE = "raise the deadline, or look at the node that held it"


class Endings:
    """Cancels transactions of a table, tells the nodes, and wakes whoever waits for them.

    Args:
        table: The transactions.
        lock: Guards the table, and wakes those who wait.
        backend: The running graph.
    """

    def __init__(self, table: TransactionTable, lock: threading.Condition, backend: Backend) -> None:
        self._table, self._lock, self._backend = table, lock, backend
        self._keeper = DeadlineKeeper(self._next_deadline, self._expire)

    def cancel(self, trans_id: int) -> bool:
        """End a transaction with CancelledError; whether it was in flight. Any thread."""
        with self._lock:
            ended = self._cancel([trans_id])
        self._tell(ended)
        return ended

    def cancel_all_of(self, channel: Channel) -> None:
        """Cancel every transaction whose outcomes go to a channel. Any thread."""
        with self._lock:
            ended = self._cancel(self._table.open_in(channel))
        self._tell(ended)

    def discard_all(self, error: DflowError) -> None:
        """End everything in flight with an error. Any thread."""
        with self._lock:
            ended = any([self._table.cancel(trans_id, error) for trans_id in self._table.open_ids])
        self._tell(ended)

    def has_deadline(self) -> None:
        """A transaction with a deadline was begun; to be called without the lock."""
        self._keeper.watch()

    def refuse(self, trans_id: int, was_fed: bool) -> None:
        """End one that could not be fed before its deadline; with the lock held."""
        error = DeadlineError("its deadline passed before it could be fed", trans_id=trans_id, hint=_WHERE)
        self._table.cancel(trans_id, error, was_fed)
        self._lock.notify_all()

    def close(self) -> None:
        """No deadline counts any more. Idempotent."""
        self._keeper.close()

    def _cancel(self, trans_ids: Iterable[int]) -> bool:
        return any([
            self._table.cancel(trans_id, CancelledError("it was cancelled", trans_id=trans_id))
            for trans_id in trans_ids
        ])

    def _next_deadline(self) -> float | None:
        with self._lock:
            return self._table.next_deadline()

    def _expire(self) -> None:
        with self._lock:
            due = [trans_id for trans_id in self._table.due(time.monotonic()) if self._table.is_open(trans_id)]
            for trans_id in due:
                place = self._backend.whereabouts(trans_id)
                what = "its deadline passed" + (" while this node worked on it" if place else "")
                node, instance = place or (None, None)
                error = DeadlineError(what, node=node, instance=instance, trans_id=trans_id, hint=_WHERE)
                self._table.cancel(trans_id, error)
        self._tell(bool(due))

    def _tell(self, ended: bool) -> None:
        if ended:
            with self._lock:
                self._lock.notify_all()
            self._backend.wake()
            self._backend.tell_cancelled()
