"""The way of transactions into a graph: memory, room, an id, and the queues."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dflow_core.errors import ClosedError, PoolExhaustedError, QueueFullError, WaitTimeoutError
from dflow_core.executor.caller.endings import Endings
from dflow_core.executor.caller.parcel import Parcel
from dflow_core.executor.caller.pump import Pump, Shared
from dflow_core.executor.deadlines import earlier, remaining
from dflow_core.executor.outcomes import Channel
from dflow_core.message import Block, FlowMsg, seal

_ALLOC_SLICE = 0.02


class Feeder:
    """Feeds parcels, one at a time; any thread may use it.

    Args:
        shared: What it shares with the other parts of the client.
        pump: Moves what arrives, while something is waited for.
        endings: Ends what is over its deadline.
        inputs: Names of the graph's inputs.
        hand_in: Puts blocks into the queues, as `Backend.feed` does.
        max_unfetched: Results that may lie unfetched before feeding blocks.
        on_fed: Called after something was fed.
    """

    def __init__(
        self, shared: Shared, pump: Pump, endings: Endings, inputs: Sequence[str],
        hand_in: Callable[[int, Mapping[int, Block]], None], max_unfetched: int, on_fed: Callable[[], None],
    ) -> None:
        self._shared, self._pump, self._endings, self._inputs = shared, pump, endings, inputs
        self._hand_in, self._max_unfetched, self._on_fed = hand_in, max_unfetched, on_fed
        # Owned by threads: one that a signal handler has thrown out halfway finds its own and goes on.
        self._feeding = threading.RLock()
        self._held = 0

    def hold_up(self, change: int) -> None:
        """Begin no transaction while this was called more often with 1 than with -1."""
        with self._shared.lock:
            self._held += change
            self._shared.lock.notify_all()
        self._shared.backend.wake()

    def send(self, parcel: Parcel, deadline: float | None, give_way: Callable[[], bool]) -> bool:
        """Feed a parcel; False if that would have to wait while there is something better to do.

        One whose own deadline passes before that is not fed: it begins and ends at once.
        """
        due = parcel.deadline
        if due is None:
            return self._send_now(parcel, deadline, give_way)
        try:
            if time.monotonic() < due:
                return self._send_now(parcel, earlier(deadline, due), give_way)
        except WaitTimeoutError as error:
            if time.monotonic() < due or getattr(error, "never_fits", False):
                raise
        with self._shared.mutex:
            self._shared.check_open()
            parcel.trans_id = self._shared.table.next_id(parcel.ports, parcel.info.transaction_id)
            was_fed = self._shared.table.is_open(parcel.trans_id)
            self._shared.table.begin(parcel.ports, parcel.trans_id, parcel.channel)
            self._endings.refuse(parcel.trans_id, was_fed)
        return True

    def _send_now(self, parcel: Parcel, deadline: float | None, give_way: Callable[[], bool]) -> bool:
        ports = parcel.ports
        for port in ports:
            if port not in parcel.packed:
                try:
                    self._pack(parcel, port, deadline, give_way)
                except PoolExhaustedError as error:
                    if error.never_fits or not give_way():
                        raise
                    return False
        if not self._feeding.acquire(timeout=remaining(deadline)):
            raise QueueFullError(f"another thread waits for room in graph {self._shared.graph!r}")
        try:
            begun = None
            while begun is None:
                if not self._wait_for_room(ports, deadline, parcel.channel, give_way):
                    return False
                begun = self._begin(parcel, ports)
            trans_id, token = begun
            if parcel.deadline is not None:  # before it is handed in: inline, that runs the nodes
                self._endings.has_deadline()
            try:
                self._hand_in(trans_id, parcel.finish(ports, trans_id, token))
            except ClosedError as error:  # the graph has failed since there was room
                failure = self._shared.backend.failure()
                if failure is None:
                    raise
                raise failure from error
            self._on_fed()
        finally:
            self._feeding.release()
        return True

    def _begin(self, parcel: Parcel, ports: Sequence[int]) -> tuple[int, int] | None:
        """Begin the transaction; None if feeding has been held up since there was room."""
        shared = self._shared
        with shared.mutex:
            shared.check_open()
            if self._held:
                return None
            trans_id = shared.table.next_id(ports, parcel.info.transaction_id)
            return trans_id, shared.table.begin(ports, trans_id, parcel.channel, parcel.deadline)

    def _pack(self, parcel: Parcel, port: int, deadline: float | None, give_way: Callable[[], bool]) -> None:
        self._shared.check_open()

        def alloc(size: int) -> Block:
            return self._alloc(size, deadline, give_way)

        parcel.pack(port, alloc)
        packed = parcel.packed[port]
        assert packed.block is not None
        if not self._shared.backend.owns(packed.block):
            assert isinstance(packed, FlowMsg)
            parcel.packed[port] = seal(packed, alloc)

    def _alloc(self, size: int, deadline: float | None, give_way: Callable[[], bool]) -> Block:
        """Wait for memory, and meanwhile take what arrives: a node that cannot send keeps its inputs."""
        while True:
            patience = _ALLOC_SLICE if deadline is None else min(_ALLOC_SLICE, remaining(deadline))
            try:
                return self._shared.backend.alloc(size, patience)
            except PoolExhaustedError as error:
                failure = self._shared.backend.failure()
                if failure is not None:
                    raise failure from error
                if error.never_fits or give_way() or remaining(deadline, 1.0) <= 0:
                    raise
            with self._shared.lock:
                self._shared.check_open()
            self._pump.run(time.monotonic(), give_way)

    def _wait_for_room(
        self, ports: Sequence[int], deadline: float | None, channel: Channel, give_way: Callable[[], bool]
    ) -> bool:
        def is_free() -> bool:
            if self._held or len(channel.outcomes) >= self._max_unfetched:
                return False
            return self._shared.backend.has_room(ports)

        if is_free():
            return True
        shared, began = self._shared, time.monotonic()
        while not is_free():
            if give_way():
                return False
            failure = self._shared.backend.failure()
            if failure is not None:
                raise failure
            with self._shared.lock:
                self._shared.check_open()
            if not self._pump.run(deadline, lambda: is_free() or give_way(), ports):
                names = ", ".join(self._inputs[port] for port in ports)
                full = len(channel.outcomes) >= self._max_unfetched
                raise QueueFullError(
                    f"no room at input {names} of graph {shared.graph!r} within the limit\n{self._pump.report(began)}",
                    hint=_hint(full, self._held),
                )
        return True


def _hint(is_full: bool, is_held: int) -> str:
    if is_held:
        return "feeding is held up while a node is exchanged or the graph recovers"
    return "fetch results: they wait unfetched" if is_full else "feed slower, or raise the timeout"
