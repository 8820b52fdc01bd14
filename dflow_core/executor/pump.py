"""Moves what arrives at a graph's outputs into the transaction table.

Whoever waits does the work: a waiting caller takes the pump, moves what arrives, and hands the pump on; the others
sleep on a condition until something of theirs has come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from dflow_core.errors import WaitTimeoutError
from dflow_core.executor.backend import Backend
from dflow_core.executor.other_ends import OtherEnds
from dflow_core.executor.transactions import Channel, Outcome, TransactionTable
from dflow_core.message import FlowMsg

_SLICE = 0.1
_LONG_WAIT = 0.3


class Pump:
    """The pump of one graph; any thread may use it.

    Args:
        graph: Its name, for errors.
        table: Takes what arrives.
        lock: Guards the table, and wakes those who wait.
        backend: The running graph.
        mutex: The lock without its waiting, which is faster to take.
        check_open: Raises if the graph is closed.
        take_out: Takes what has arrived, as `Backend.pump` does.
        others: What ends transactions besides messages, if anything does.
    """

    def __init__(
        self, graph: str, table: TransactionTable, lock: threading.Condition, backend: Backend,
        mutex: AbstractContextManager[bool], check_open: Callable[[], None],
        take_out: Callable[[float, Sequence[int]], list[tuple[int, FlowMsg]]], others: OtherEnds | None = None,
    ) -> None:
        self._graph, self._table, self._lock, self._backend = graph, table, lock, backend
        self._mutex, self._check_open, self._take_out = mutex, check_open, take_out
        self._others = others
        self._pumper = 0

    def is_free(self) -> bool:
        """Whether no other thread is at the pump."""
        return self._pumper in (0, threading.get_ident())

    def next(self, channel: Channel, deadline: float | None) -> Outcome:
        """The next outcome of a channel.

        Raises:
            WaitTimeoutError: none came before the deadline (monotonic seconds); the text says where everything stands.
        """
        began = 0.0
        while True:
            with self._mutex:
                if channel.outcomes:
                    return channel.outcomes.popleft()
                self._check_open()
                began = began or time.monotonic()
                failure = self._backend.failure()
                if failure is not None:
                    self._table.fail_all(failure)
                    self._lock.notify_all()
                    if not channel.outcomes:
                        raise failure
                    continue
            if not self.run(deadline, channel.has_outcomes):
                with self._lock:
                    open_ids = self._table.open_ids
                oldest = f", the oldest is {open_ids[0]}" if open_ids else ""
                raise WaitTimeoutError(
                    f"nothing came from graph {self._graph!r} within the limit; "
                    f"{len(open_ids)} transaction(s) in flight{oldest}\n{self.report(began)}",
                    hint="raise the timeout, or look at the node that holds them",
                )

    def run(self, deadline: float | None, is_done: Callable[[], bool], room_for: Sequence[int] = ()) -> bool:
        """Move messages until `is_done` may have become true; False if the deadline has passed."""
        remaining = _SLICE if deadline is None else min(_SLICE, deadline - time.monotonic())
        own = threading.get_ident()
        with self._lock:
            if is_done():
                return True
            if self._others is not None:
                remaining = min(remaining, self._others.patience())
            if self._pumper not in (0, own):
                self._lock.wait(max(0.0, remaining))
                return is_done() or deadline is None or time.monotonic() < deadline
            self._pumper = own
        try:
            arrived = self._take_out(max(0.0, remaining), room_for)
        finally:
            with self._lock:
                self._pumper = 0
                self._lock.notify_all()
        with self._lock:
            for output, msg in arrived:
                self._table.arrive(output, msg)
            if self._others is not None:
                self._others.settle()
            if arrived or self._others is not None:
                self._lock.notify_all()
            return bool(arrived) or is_done() or deadline is None or time.monotonic() < deadline

    def report(self, began: float) -> str:
        """Where everything stands; with stacks where somebody has waited long enough to want them."""
        return self._backend.report(stacks=time.monotonic() - began >= _LONG_WAIT)
