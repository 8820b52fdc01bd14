"""Where the messages of an instance go: from outputs of a node into the queues of its readers."""

from __future__ import annotations

from dflow_core.errors import ClosedError, QueueFullError
from dflow_core.executor.gate import Gate
from dflow_core.executor.lossy import sender
from dflow_core.executor.process.routing import Rerouter, fixed, picked, target_of
from dflow_core.message import Alloc, Block, FlowMsg, routing_of, seal
from dflow_core.model import InstancePlan
from dflow_core.spi import MemoryGroup, Queue

_SLICE = 0.2


class Outlet:
    """The outputs of one instance.

    Args:
        plan: Its routes.
        group: The memory group.
        gate: Is told while it waits for room.
        alloc: Gives blocks.
    """

    def __init__(self, plan: InstancePlan, group: MemoryGroup, gate: Gate, alloc: Alloc) -> None:
        self._plan, self._group, self._gate, self._alloc = plan, group, gate, alloc
        names = [name for routes in plan.outputs for route in routes for name in route.queues]
        self.queues: dict[str, Queue] = {name: sender(group, name, plan.notices) for name in names}
        self.targets = [[target_of(route, self.queues) for route in routes] for routes in plan.outputs]
        self.fixed = [fixed(targets) for targets in self.targets]
        self._rerouter = Rerouter([target for targets in self.targets for target in targets])

    def send(self, output: int, msg: FlowMsg) -> None:
        """Send a message to all readers of an output; waits for room."""
        if not self._plan.outputs[output]:
            return
        if msg.block is None or not self._group.owns(msg.block):
            msg = seal(msg, self._alloc)
        block = msg.block
        assert block is not None
        targets = self.fixed[output]
        if targets is None:
            targets = picked(self.targets[output], msg.info.trans_id, msg.info.route_label)
        copies = [block.retain() for _ in targets[1:]]
        for queue, reference in zip(targets, [*copies, block]):
            self.put(queue, reference)

    def put(self, queue: Queue, block: Block) -> None:
        """Put a block into a queue, or into the one that is used instead of it; waits for room.

        Raises:
            ClosedError: the graph or the instance ends.
        """
        try:
            return queue.put(block, timeout=_SLICE)
        except QueueFullError:
            other: Queue | None = queue
        except ClosedError:
            other = self._rerouter.instead(queue, *routing_of(block))
            if other is None:
                raise
        assert other is not None
        self._put_patiently(other, block)

    def _put_patiently(self, queue: Queue, block: Block) -> None:
        self._gate.blocked = True
        try:
            while not self._gate.stopping:
                try:
                    return queue.put(block, timeout=_SLICE)
                except QueueFullError:
                    continue
                except ClosedError:
                    other = self._rerouter.instead(queue, *routing_of(block))
                    if other is None:
                        raise
                    queue = other
        finally:
            self._gate.blocked = False
        raise ClosedError("stopping")
