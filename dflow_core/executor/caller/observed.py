"""A transaction table somebody watches: what a recording needs to hear of the caller's side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dflow_core.errors import DflowError
from dflow_core.executor.backend import Backend
from dflow_core.executor.caller.aligned_table import AlignedTable
from dflow_core.executor.caller.transactions import Transaction, TransactionTable
from dflow_core.executor.outcomes import Outcome
from dflow_core.message import Block, FlowMsg
from dflow_core.model import PneModel


class Observer(Protocol):
    """What is told of everything that is fed, arrives and ends; see `dflow_core.recording.Recorder`."""

    def fed(self, trans_id: int, blocks: Mapping[int, Block]) -> None: ...

    def called(self, packed: Sequence[bytes]) -> None: ...

    def exchanged(self, first: int, models: Mapping[str, PneModel], versions: Mapping[str, int]) -> None: ...

    def arrived(self, output: int, msg: FlowMsg) -> None: ...

    def ended(self, trans_id: int, error: DflowError | None, dropped: bool) -> None: ...

    def close(self) -> None: ...


class ObservedTable(TransactionTable):
    """A transaction table that tells an observer, once it has one."""

    observer: Observer

    def arrive(self, output: int, msg: FlowMsg) -> None:
        trans_id = msg.info.trans_id
        self.observer.arrived(output, msg)
        super().arrive(output, msg)
        if trans_id not in self._open:
            self.observer.ended(trans_id, None, False)  # where the short way has ended it

    def _finish(self, trans_id: int, transaction: Transaction, outcome: Outcome) -> None:
        super()._finish(trans_id, transaction, outcome)
        self.observer.ended(trans_id, outcome.error, outcome.dropped)


class ObservedAlignedTable(ObservedTable, AlignedTable):
    """The same where sets of results that stay incomplete are given up."""


class ObservedBackend:
    """The two ways of messages through a backend, with an observer beside them.

    Args:
        backend: The running graph.
        observer: Who is told.
    """

    def __init__(self, backend: Backend, observer: Observer) -> None:
        self._backend, self._observer = backend, observer

    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        """As that of the backend."""
        self._observer.fed(trans_id, blocks)
        self._backend.feed(trans_id, blocks)

    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        """As that of the backend; what is known of failed calls is told before their errors arrive."""
        arrived = self._backend.pump(timeout, room_for)
        calls = self._backend.failed_calls()
        if calls:
            self._observer.called(calls)
        return arrived
