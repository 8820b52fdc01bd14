"""Moves what arrives at a graph's outputs into the transaction table.

Whoever waits does the work: a waiting caller takes the pump, moves what arrives, and hands the pump on; the others
sleep on a condition until something of theirs has come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dflow_core.errors import WaitTimeoutError
from dflow_core.executor.backend import Backend
from dflow_core.executor.caller.other_ends import OtherEnds
from dflow_core.executor.caller.transactions import TransactionTable
from dflow_core.executor.outcomes import Channel, Outcome
from dflow_core.message import FlowMsg

_SLICE = 0.1
_LONG_WAIT = 0.3


@dataclass(frozen=True, slots=True)
class Shared:
    """What the parts of a client share.

    Args:
        graph: Name of the graph, for errors.
        table: The transactions.
        mutex: The lock without its waiting, which is faster to take.
        lock: Guards the table, and wakes those who wait.
        backend: The running graph.
        check_open: Raises if the graph is closed.
    """

    graph: str
    table: TransactionTable
    mutex: AbstractContextManager[bool]
    lock: threading.Condition
    backend: Backend
    check_open: Callable[[], None]


class Pump:
    """The pump of one graph; any thread may use it.

    Args:
        shared: What it shares with the other parts of the client.
        take_out: Takes what has arrived, as `Backend.pump` does.
        others: What ends transactions besides messages, if anything does.
    """

    def __init__(
        self, shared: Shared, take_out: Callable[[float, Sequence[int]], list[tuple[int, FlowMsg]]],
        others: OtherEnds | None = None,
    ) -> None:
        self._graph, self._table, self._backend = shared.graph, shared.table, shared.backend
        self._lock, self._mutex, self._check_open = shared.lock, shared.mutex, shared.check_open
        self._take_out, self._others = take_out, others
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

    def wait_until_idle(self, deadline: float | None) -> None:
        """Wait until nothing is in flight.

        Raises:
            WaitTimeoutError: that took longer.
        """
        began = time.monotonic()

        def is_idle() -> bool:
            return not self._table.in_flight

        while not is_idle():
            failure = self._backend.failure()
            if failure is not None:
                raise failure
            with self._lock:
                self._check_open()
            if not self.run(deadline, is_idle):
                raise WaitTimeoutError(
                    f"graph {self._graph!r} has not come to rest within the limit: {self._table.in_flight} "
                    f"transaction(s) in flight\n{self.report(began)}",
                    hint="raise the timeout, or give batches a timeout: one that waits for more holds what it has",
                )
