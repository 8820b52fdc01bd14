"""What becomes of the work of a process that is not started again: other instances of its nodes do it.

Instances that share a queue go on as they are. One with queues of its own has them closed: who puts messages there
takes the next open one instead, by the same rule for every input of the node; what lies in them is moved there. Where
messages come from another machine nobody there would hear of it, and they would be lost: such a process has no others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from dflow_core.deploy.supervision.lifecycle import State
from dflow_core.deploy.supervision.member import Member
from dflow_core.errors import ClosedError, DflowError, WaitTimeoutError
from dflow_core.message import Block, MsgInfo
from dflow_core.model import DeployPlan, Route, index_of
from dflow_core.spi import MemoryGroup

_ALIVE = (State.RUNNING, State.STARTING, State.BACKOFF)


class Survivors:
    """Belongs to the supervisor's thread.

    Args:
        plan: What runs where.
        group: Memory group of the queues.
        members: Gives the processes there are.
    """

    def __init__(self, plan: DeployPlan, group: MemoryGroup, members: Callable[[], Sequence[Member]]) -> None:
        self._group, self._members = group, members
        routes = [route for routes in plan.feeds for route in routes]
        routes += [route for i in plan.instances for routes in i.outputs for route in routes]
        self._routes = {queue: route for route in routes if len(route.queues) > 1 for queue in route.queues}
        self._from_elsewhere = {one.queue for one in plan.crossings if one.target == plan.machine}
        self._closed: set[str] = set()
        self._moving: deque[tuple[Route, Block]] = deque()

    @property
    def pending(self) -> bool:
        """Whether messages wait for room in their new queues."""
        return bool(self._moving)

    def of(self, member: Member) -> bool:
        """Whether every node of a process has another instance that is alive and can do its work."""
        if self._from_elsewhere.intersection(self._own_queues(member)):
            return False
        alive = {
            i.model for other in self._members() if other is not member and other.life.state in _ALIVE
            for i in other.plan.instances
        }
        return all(instance.model in alive for instance in member.plan.instances)

    def take_over(self, member: Member) -> None:
        """Close the queues that only this process reads, and move what lies in them."""
        for name in self._own_queues(member):
            route = self._routes.get(name)
            if route is None:
                continue
            self._closed.add(name)
            queue = self._group.queue(name)
            queue.close()
            try:
                while (block := queue.get(0.0)) is not None:
                    self._moving.append((route, block))
            except ClosedError:
                pass  # it is empty
        self.move()

    def _own_queues(self, member: Member) -> list[str]:
        """The queues that only this process reads."""
        rest = [other for other in self._members() if other is not member]
        others = {queue for other in rest for i in other.plan.instances for queue in i.inputs}
        return [queue for i in member.plan.instances for queue in i.inputs if queue not in others]

    def move(self) -> None:
        """Put what has been taken out of closed queues where there is room."""
        for _ in range(len(self._moving)):
            route, block = self._moving.popleft()
            info, _, _ = MsgInfo.unpack(block.array())
            count = len(route.queues) - route.spares
            first = index_of(route.by, info.trans_id, info.route_label, count)
            turn = [route.queues[(first + i) % count] for i in range(count)] + list(route.queues[count:])
            target = next((name for name in turn if name not in self._closed), None)
            try:
                if target is not None:
                    self._group.queue(target).put(block, 0.0)
            except WaitTimeoutError:
                self._moving.append((route, block))
            except DflowError:
                block.release()  # the graph ends
