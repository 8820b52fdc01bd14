"""The caller's side of a running graph: feed, fetch, call, map.

Whoever waits does the work (`pump.py`): there is no thread in the background, unless a transaction has a deadline. All
methods are thread-safe.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from dflow_core.errors import (
    ClosedError,
    DflowError,
    DroppedError,
)
from dflow_core.executor.backend import Backend
from dflow_core.executor.caller.cancelling import Traces
from dflow_core.executor.caller.endings import Endings
from dflow_core.executor.caller.feeder import Feeder
from dflow_core.executor.caller.monitor import StallMonitor
from dflow_core.executor.caller.observed import ObservedBackend, Observer
from dflow_core.executor.caller.other_ends import OtherEnds
from dflow_core.executor.caller.parcel import NO_INFO, Parcel
from dflow_core.executor.caller.pump import Pump, Shared
from dflow_core.executor.caller.result_order import ResultOrder
from dflow_core.executor.caller.tables import make_table
from dflow_core.executor.cancel_board import CancelBoard
from dflow_core.executor.deadlines import deadline_in, never
from dflow_core.executor.outcomes import Channel, Counters, Outcome
from dflow_core.message import FeedInfo
from dflow_core.model import PneModel
from dflow_core.types import NO_LIMITS, AlignLimits


class GraphClient:
    """Feeds and fetches over a backend.

    Args:
        graph: Name of the graph, for errors.
        inputs, outputs: Names of root inputs and outputs.
        backend: The running graph.
        max_unfetched: Results that may lie unfetched before feeding blocks.
        last_id: Transaction ids begin above this.
        observer: Is told of everything that is fed, arrives and ends.
        limits, catches: Limits of alignment in force, and whether functions may raise exceptions.
        needs: Inputs that each output needs; None says all.
    """

    def __init__(
        self, graph: str, inputs: Sequence[str], outputs: Sequence[str], backend: Backend, max_unfetched: int = 256,
        last_id: int = 0, limits: AlignLimits = NO_LIMITS, catches: bool = False, observer: Observer | None = None,
        needs: Sequence[frozenset[int]] | None = None,
    ) -> None:
        self._graph = graph
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._backend = backend
        self._observer = observer
        way = backend if observer is None else ObservedBackend(backend, observer)
        traces = Traces(CancelBoard(backend.cancel_words()))
        self._table = make_table(len(inputs), outputs, last_id, limits, observer, traces)
        if needs is not None:
            self._table.learn_needs(needs)
        self._main = Channel(endings=False)
        self._mutex = threading.RLock()
        self._lock = threading.Condition(self._mutex)
        shared = Shared(graph, self._table, self._mutex, self._lock, backend, self._check_open)
        self._endings = Endings(shared)
        self._pump = Pump(shared, way.pump, OtherEnds.of(self._table, backend, catches))
        self._feeder = Feeder(
            shared, self._pump, self._endings, self._inputs, way.feed, max_unfetched, self._watch_for_stalls
        )
        self._closed = False
        self.monitor: StallMonitor | None = None

    @property
    def counters(self) -> Counters:
        """Totals of transactions since the start."""
        return self._table.counters

    @property
    def in_flight(self) -> int:
        """Transactions that have not ended."""
        return self._table.in_flight

    @property
    def open_ids(self) -> list[int]:
        """Transactions that have not ended, oldest first."""
        with self._mutex:
            return self._table.open_ids

    def expect_all_outputs(self) -> None:
        """Have results wait for all outputs, also those that need other inputs; to be called before anything is fed."""
        self._table.learn_needs([frozenset(range(len(self._inputs)))] * len(self._outputs))

    def feed(
        self, values: Mapping[int, object], *, info: FeedInfo | None = None, timeout: float | None = None,
        channel: Channel | None = None, deadline: float | None = None,
    ) -> int:
        """Feed values to inputs, all of them or none.

        Args:
            values: One value for each input index to feed.
            info: Times, flags, id and user data to send along.
            timeout: Seconds to wait for room; None waits.
            channel: Where the outcome goes; the one `fetch` reads by default.
            deadline: Seconds from now after which it ends with DeadlineError, be it fed or not; None is no limit.

        Returns:
            The transaction id.

        Raises:
            QueueFullError: no room within the limit; nothing was fed.
            PoolExhaustedError: no memory within the limit; nothing was fed.
        """
        self._check_process()
        parcel = Parcel(values, info or NO_INFO, channel or self._main, deadline=deadline_in(deadline))
        self._feeder.send(parcel, deadline_in(timeout), never)
        return parcel.trans_id

    def fetch(self, timeout: float | None = None) -> Outcome:
        """The next result or error of what was fed with `feed`.

        Raises:
            WaitTimeoutError: none came within the limit; the text says where everything stands.
        """
        self._check_process()
        deadline = deadline_in(timeout)
        while True:
            outcome = self._pump.next(self._main, deadline)
            if outcome.error is not None or outcome.messages:
                return outcome

    def take(self, channel: Channel, timeout: float | None = None) -> Outcome:
        """The next outcome of what was fed with this channel.

        Raises:
            WaitTimeoutError: none came within the limit.
        """
        return self._pump.next(channel, deadline_in(timeout))

    def abandon(self, channel: Channel, error: DflowError) -> None:
        """Let what was fed with this channel go: its results are dropped, and who waits for them gets the error."""
        with self._lock:
            self._table.abandon(channel)
            channel.outcomes.append(Outcome(0, error=error, last=True))
            self._lock.notify_all()
        self._backend.wake()

    def cancel(self, trans_id: int) -> bool:
        """End a transaction now with CancelledError, and let go of what is under way of it. Any thread.

        Returns:
            Whether it was in flight; False if it has ended already.
        """
        self._check_process()
        return self._endings.cancel(trans_id)

    def cancel_all_of(self, channel: Channel) -> None:
        """Cancel what is in flight of a call or a stream. Any thread."""
        self._check_process()
        self._endings.cancel_all_of(channel)

    def is_open(self, trans_id: int) -> bool:
        """Whether a transaction is in flight."""
        with self._mutex:
            return self._table.is_open(trans_id)

    def call(
        self, values: Mapping[int, object], *, info: FeedInfo | None = None, timeout: float | None = None,
        deadline: float | None = None, channel: Channel | None = None,
    ) -> list[Outcome]:
        """Feed one transaction and wait for all its results.

        Args:
            values, info, timeout, deadline: As for `feed`; `timeout` is also that of the wait.
            channel: A new one, if somebody else is to be able to cancel the call.

        Raises:
            DroppedError: no node sent anything for it.
        """
        self._check_process()
        limit = deadline_in(timeout)
        channel = channel or Channel()
        try:
            trans_id = self.feed(values, info=info, timeout=timeout, channel=channel, deadline=deadline)
            return self.results_of(channel, trans_id, limit)
        except BaseException:
            with self._lock:
                self._table.abandon(channel)
            raise

    def stream(
        self, items: Iterable[Mapping[int, object]], *, in_flight: int, ordered: bool, timeout: float | None = None,
        on_end: Callable[[Outcome], None] | None = None, deadline: float | None = None,
    ) -> Iterator[Outcome]:
        """Feed items as there is room, and yield their outcomes.

        Args:
            items: Values by input index, one mapping per transaction.
            in_flight: Transactions under way at once.
            ordered: Whether outcomes come in the order of the items; else as they end.
            timeout: Seconds without any progress after which to give up; None waits.
            on_end: Called with the last outcome of each transaction.
            deadline: Seconds after an item was taken after which it ends with DeadlineError; None is no limit.

        Yields:
            Results and errors; transactions without a result yield nothing.
        """
        channel = Channel()
        order = ResultOrder(ordered)
        source = iter(items)
        parcel: Parcel | None = None
        exhausted = False

        try:
            while True:
                while not exhausted and channel.open + order.held < in_flight:
                    item = parcel or next(source, None)
                    if item is None:
                        exhausted = True
                        break
                    if not isinstance(item, Parcel):
                        item = Parcel(item, NO_INFO, channel, deadline=deadline_in(deadline))
                    parcel = item
                    # What was not given out yet may be what holds the memory: then it has to go first.
                    if not self._feeder.send(parcel, deadline_in(timeout), channel.has_outcomes):
                        break
                    order.expect(parcel.trans_id)
                    parcel = None
                if exhausted and not channel.open and not channel.outcomes:
                    return
                outcome = self._pump.next(channel, deadline_in(timeout))
                if outcome.last and on_end is not None:
                    on_end(outcome)
                yield from order.add(outcome)
        finally:
            with self._lock:
                self._table.abandon(channel)

    @contextlib.contextmanager
    def at_rest(self, timeout: float, *, discard: bool = False) -> Iterator[int]:
        """Hold feeding up and let everything in flight end; while this is entered, nothing is under way.

        Gives the lowest id that the next transaction can have.

        Args:
            timeout: Seconds that may take.
            discard: Whether to leave what is in flight to the caller of this instead of waiting for its end.

        Raises:
            WaitTimeoutError: something has not ended in time; feeding goes on.
        """
        self._check_process()
        self._feeder.hold_up(1)
        try:
            if not discard:
                self._pump.wait_until_idle(deadline_in(timeout))
            yield self._table.next_id(range(len(self._inputs)))
        finally:
            self._feeder.hold_up(-1)

    def note_exchange(self, first: int, models: Mapping[str, PneModel], versions: Mapping[str, int]) -> None:
        """Other models do the work from a transaction on: every outcome says so, and who observes the graph is told.

        Only while the graph is at rest.
        """
        with self._mutex:
            self._table.mark(versions)
        if self._observer is not None:
            self._observer.exchanged(first, models, versions)

    def discard_all(self, error: Callable[[int], DflowError]) -> None:
        """End everything in flight with an error made for its id, and forget what was cancelled before."""
        self._endings.discard_all(error)

    def drain(self) -> None:
        """Take out what has arrived, so that nodes that wait for room go on."""
        self._pump.run(time.monotonic(), never)

    def _watch_for_stalls(self) -> None:
        if self.monitor is not None and not self.monitor.armed:
            self.monitor.arm()

    def close(self) -> None:
        """End the graph; everything in flight ends with ClosedError. Idempotent; in a fork it does nothing."""
        if self._backend.is_foreign:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._table.fail_all(ClosedError(f"graph {self._graph!r} was closed"))
            self._lock.notify_all()
        if self.monitor is not None:
            self.monitor.close()
        self._endings.close()
        self._backend.wake()
        with self._lock:
            self._lock.wait_for(self._pump.is_free, timeout=5)
        self._backend.close()
        if self._observer is not None:
            self._observer.close()

    def results_of(self, channel: Channel, trans_id: int, deadline: float | None) -> list[Outcome]:
        """Every result of the only transaction of a channel, waiting up to a deadline (monotonic seconds).

        Raises:
            What ended it; DroppedError if no node sent anything for it; WaitTimeoutError at the deadline.
        """
        results: list[Outcome] = []
        while True:
            outcome = self._pump.next(channel, deadline)
            if outcome.error is not None:
                raise outcome.error
            if outcome.messages:
                results.append(outcome)
            if outcome.last:
                break
        if not results:
            raise DroppedError(outcome.reason or "no node sent anything for it", trans_id=trans_id)
        return results

    def _check_process(self) -> None:
        if self._backend.is_foreign:
            raise ClosedError(
                f"graph {self._graph!r} belongs to the process that started it; this is a fork of that",
                hint="build and start a graph in this process before dflow is used, or start processes with spawn",
            )

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"graph {self._graph!r} is closed", hint="use it inside its `with` block")
