"""The queues between an instance and a graph that its functions call."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from dflow_core.errors import ClosedError, DflowError
from dflow_core.executor.backend import ALLOC_LIMIT, Backend
from dflow_core.executor.lossy import reader, sender, waitable
from dflow_core.message import Block, FlowMsg
from dflow_core.model import InvokedPlan
from dflow_core.spi import MemoryGroup, Queue

_BURST = 64


class CalledQueues(Backend):
    """Feeds and drains the queues of a called graph, inside an executor.

    Args:
        plan: Its queues.
        notices: For each queue that may drop messages, the queue that tells of them.
        group: The memory group.
        is_stopping: Whether the instance is to end.
    """

    def __init__(
        self, plan: InvokedPlan, notices: Mapping[str, str], group: MemoryGroup, is_stopping: Callable[[], bool]
    ) -> None:
        self._group = group
        self._is_stopping = is_stopping
        self._feeds = [
            [sender(group, queue, notices) for route in routes for queue in route.queues] for routes in plan.inputs
        ]
        self._fetches = [reader(group, name, notices) for name in plan.outputs]
        self._doorbell = group.doorbell()
        self._closed = False
        self._pid = os.getpid()

    @property
    def is_foreign(self) -> bool:
        return os.getpid() != self._pid

    def alloc(self, size: int, timeout: float = ALLOC_LIMIT) -> Block:
        return self._group.alloc(size, timeout)

    def owns(self, block: Block) -> bool:
        return self._group.owns(block)

    def has_room(self, inputs: Sequence[int]) -> bool:
        return all(queue.level() < queue.depth for port in inputs for queue in self._feeds[port])

    def feed(self, trans_id: int, blocks: Mapping[int, Block]) -> None:
        for port, block in blocks.items():
            targets = self._feeds[port]
            references = [block.retain() for _ in targets[1:]]
            for queue, reference in zip(targets, [*references, block]):
                queue.put(reference, timeout=None)

    def pump(self, timeout: float, room_for: Sequence[int] = ()) -> list[tuple[int, FlowMsg]]:
        arrived = self._drain()
        if not arrived and timeout > 0:
            full: list[Queue] = [q for port in room_for for q in self._feeds[port] if q.level() >= q.depth]
            self._doorbell.wait(waitable(self._fetches), waitable(full), timeout=timeout)
            arrived = self._drain()
        return arrived

    def failure(self) -> DflowError | None:
        if self._is_stopping() or self._closed:
            return ClosedError("the graph ends")
        return None

    def report(self, stacks: bool = True) -> str:
        queues = [*(queue for targets in self._feeds for queue in targets), *self._fetches]
        return "\n".join(f"  queue {one.name}: {level} of {one.depth}" for one in queues if (level := one.level()))

    def wake(self) -> None:
        self._doorbell.ring()

    def close(self) -> None:
        """The queues belong to the graph, which closes them."""

    def _drain(self) -> list[tuple[int, FlowMsg]]:
        arrived: list[tuple[int, FlowMsg]] = []
        for output, queue in enumerate(self._fetches):
            for _ in range(_BURST):
                try:
                    block = queue.get(timeout=0)
                except ClosedError:  # nobody is left who could answer
                    self._closed = True
                    break
                if block is None:
                    break
                arrived.append((output, FlowMsg.from_block(block)))
        return arrived
