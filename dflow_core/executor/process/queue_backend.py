"""The backend over queues of a memory group and a deployment of processes."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Mapping, Sequence

from dflow_core.errors import ClosedError, DflowError, PoolExhaustedError
from dflow_core.executor.backend import ALLOC_LIMIT, Backend
from dflow_core.executor.caller.stats import StatsReader
from dflow_core.executor.cancel_board import BOARD, WORDS, Words
from dflow_core.executor.failed_calls import FAILED_CALLS, arrived_calls
from dflow_core.executor.lossy import NOTICE_SLICE, flush, reader, sender, waitable
from dflow_core.executor.meter import NodeStats
from dflow_core.executor.process.routing import Rerouter, Target, fixed, picked, target_of
from dflow_core.message import Block, FlowMsg, routing_of
from dflow_core.model import ExceptionNote, PneModel
from dflow_core.spi import Deployment, Exchange, InstanceStatus, Queue, QueueStats

_SLICE = 0.1
_BURST = 64


class QueueBackend(Backend):
    """Feeds root input queues and drains root output queues.

    Args:
        deployment: The running processes.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._group = deployment.group
        self._routes = deployment.plan.feeds
        names = [name for routes in self._routes for route in routes for name in route.queues]
        lossy, ages = deployment.plan.notices, {queue.name: queue.max_age for queue in deployment.plan.queues}
        self._feeds = {name: sender(self._group, name, lossy, ages.get(name, 0.0)) for name in names}
        self._targets = [[target_of(route, self._feeds) for route in routes] for routes in self._routes]
        self._fixed = [fixed(targets) for targets in self._targets]
        self._rerouter = Rerouter([target for targets in self._targets for target in targets])
        self._queues_of: dict[tuple[int, ...], list[Queue]] = {}
        self._fetches = [reader(self._group, name, lossy) for name in deployment.plan.fetches]
        self._lossy = any(name in lossy for name in (*names, *deployment.plan.fetches))
        records = any(queue.name == FAILED_CALLS for queue in deployment.plan.queues)
        self._failed_calls = self._group.queue(FAILED_CALLS) if records else None
        self._doorbell = self._group.doorbell()
        self._stats = StatsReader(deployment)
        self._exceptions: deque[ExceptionNote] = deque()
        deployment.watch_exceptions(self._note_exception)
        self._closed = False
        self._pid = os.getpid()

    @property
    def is_foreign(self) -> bool:
        return os.getpid() != self._pid

    def alloc(self, size: int, timeout: float = ALLOC_LIMIT) -> Block:
        if timeout <= _SLICE:
            return self._group.alloc(size, timeout)
        deadline = time.monotonic() + timeout
        while True:
            remaining = max(0.0, deadline - time.monotonic())
            try:
                return self._group.alloc(size, timeout=min(_SLICE, remaining))
            except PoolExhaustedError as error:
                if error.never_fits or remaining <= _SLICE or self._closed or self.failure() is not None:
                    raise

    def owns(self, block: Block) -> bool:
        return self._group.owns(block)

    def has_room(self, inputs: Sequence[int]) -> bool:
        return all(queue.level() < queue.depth for queue in self._feed_queues(inputs))

    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        for port, block in blocks.items():
            queues = self._fixed[port]
            if queues is None:
                self._feed_picked(self._targets[port], block)
                continue
            references = [block.retain() for _ in queues[1:]]
            for queue, reference in zip(queues, [*references, block]):
                queue.put(reference, timeout=None)

    def _feed_picked(self, targets: Sequence[Target], block: Block) -> None:
        """Put a block where it has to go; what an instance cannot take any more goes to another one."""
        key = routing_of(block)
        references = [block.retain() for _ in targets[1:]]
        for queue, reference in zip(picked(targets, *key), [*references, block]):
            to: Queue | None = queue
            while to is not None:
                try:
                    to.put(reference, timeout=None)
                    break
                except ClosedError:
                    to = self._rerouter.instead(to, *key)
                    if to is None:
                        raise

    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        arrived = self._drain()
        if not arrived and timeout > 0:
            writable = [queue for queue in self._feed_queues(room_for) if queue.level() >= queue.depth]
            if self._lossy:
                timeout = min(timeout, NOTICE_SLICE) if flush(self._feeds.values()) else timeout
                self._doorbell.wait(waitable(self._fetches), waitable(writable), timeout=timeout)
            else:
                self._doorbell.wait(self._fetches, writable, timeout=timeout)
            arrived = self._drain()
        return arrived

    def failed_calls(self) -> list[bytes]:
        return [] if self._failed_calls is None else arrived_calls(self._failed_calls)

    def take_exceptions(self) -> list[ExceptionNote]:
        found = []
        while self._exceptions:
            found.append(self._exceptions.popleft())
        return found

    def _note_exception(self, note: ExceptionNote) -> None:
        self._exceptions.append(note)
        self._doorbell.ring()

    def failure(self) -> DflowError | None:
        return self._deployment.failure()

    def report(self, stacks: bool = True) -> str:
        stats = self._group.stats()
        lines = [_described(status) for status in self._deployment.status()]
        lines += [f"  queue {q.name}: {q.level} of {q.depth}" for q in stats.queues if q.level]
        found = self._deployment.stacks() if stacks else {}
        lines += [f"--- {name} ---\n{text.rstrip()}" for name, text in found.items() if text.strip()]
        return "\n".join(lines)

    def stats(self) -> tuple[tuple[NodeStats, ...], tuple[QueueStats, ...], int]:
        edges, bytes_in_use = self._stats.edges()
        return self._stats.nodes(), edges, bytes_in_use

    def cancel_words(self) -> Words:
        return self._group.board(BOARD, WORDS)

    def whereabouts(self, trans_id: int) -> tuple[str, int] | None:
        return self._stats.working_on(trans_id)

    def tell_cancelled(self) -> None:
        self._deployment.tell_cancelled()

    def prepare(self, models: Mapping[str, PneModel]) -> Exchange:
        return self._deployment.prepare(models)

    def suspend(self, timeout: float) -> bool:
        return self._deployment.suspend(timeout)

    def resume(self) -> None:
        self._deployment.resume()

    def discard(self, timeout: float) -> bool | None:
        return self._deployment.discard(timeout)

    def is_empty(self) -> bool:
        return not any(queue.level for queue in self._group.stats().queues)

    def wake(self) -> None:
        self._doorbell.ring()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._deployment.close()

    def _feed_queues(self, inputs: Sequence[int]) -> list[Queue]:
        ports = tuple(inputs)
        known = self._queues_of.get(ports)
        if known is None:
            routes = [route for port in ports for route in self._routes[port]]
            known = self._queues_of[ports] = [self._feeds[name] for route in routes for name in route.queues]
        return known

    def _drain(self) -> list[tuple[int, FlowMsg]]:
        arrived: list[tuple[int, FlowMsg]] = []
        for output, queue in enumerate(self._fetches):
            for _ in range(_BURST):
                try:
                    block = queue.get(timeout=0)
                except ClosedError:
                    break
                if block is None:
                    break
                arrived.append((output, FlowMsg.from_block(block)))
        return arrived


def _described(status: InstanceStatus) -> str:
    line = f"  {status.node}#{status.instance} pid {status.pid}: {status.state}, {status.calls} calls"
    if status.current is None:
        return f"{line}, {status.busy:.1f} s busy"
    return f"{line}, working on transaction {status.current[0]} for {status.current[1]:.1f} s"
