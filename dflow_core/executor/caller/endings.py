"""Ends transactions before their time: because somebody cancels them, or because of their deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from dflow_core.errors import CancelledError, DeadlineError, DflowError
from dflow_core.executor.caller.deadline_keeper import DeadlineKeeper
from dflow_core.executor.caller.pump import Shared
from dflow_core.executor.outcomes import Channel

_WHERE = "raise the deadline, or look at the node that held it"


class Endings:
    """Cancels transactions of a table, tells the nodes, and wakes whoever waits for them.

    Args:
        shared: What it shares with the other parts of the client.
    """

    def __init__(self, shared: Shared) -> None:
        self._table, self._lock, self._backend = shared.table, shared.lock, shared.backend
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

    def discard_all(self, error: Callable[[int], DflowError]) -> None:
        """End everything in flight, because somebody throws it away, and forget what was cancelled before. Any thread.

        Args:
            error: Gives the error for a transaction.
        """
        with self._lock:
            for trans_id in self._table.open_ids:
                self._table.cancel(trans_id, error(trans_id), was_fed=False)
            self._table.traces.clear()
            self._lock.notify_all()
        self._backend.wake()

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
