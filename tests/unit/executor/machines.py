"""Two machines in one process: a memory group each, and a link whose frames travel when a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dflow_core.builtin_transport import InprocTransport
from dflow_core.errors import ClosedError, DflowError
from dflow_core.executor.gateway.intake import Intake
from dflow_core.executor.gateway.mover import Mover
from dflow_core.executor.lossy import flush, reader, sender
from dflow_core.message import Block, FlowMsg, seal
from dflow_core.model import Crossing, QueuePlan
from dflow_core.spi import (
    FIRST_DATA_LANE,
    GatewayEvents,
    GatewayPlan,
    GroupConfig,
    Link,
    LinkReceiver,
    MemoryGroup,
    Overflow,
    Queue,
)
from tests.unit.executor.support import message

HEAD, FAR = "", "far"


class ManualLink(Link):
    """One end of a link in memory.

    Args:
        peer: The other end in words.
    """

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.receiver: LinkReceiver | None = None
        self.lanes: dict[int, deque[tuple[bytes, memoryview | None]]] = {}
        self.sent: list[tuple[int, bytes]] = []
        self.broken: DflowError | None = None
        self.is_closed = False
        self.on_send: Callable[[int], object] = lambda lane: None

    def begin(self, receiver: LinkReceiver) -> None:
        self.receiver = receiver

    def send(self, lane: int, head: bytes, payload: memoryview | None = None) -> None:
        if self.broken is not None:
            raise self.broken
        if self.is_closed:
            raise ClosedError("this end was closed")
        self.sent.append((lane, head))
        self.lanes.setdefault(lane, deque()).append((head, payload))
        self.on_send(lane)

    def close(self, timeout: float = 5.0) -> None:
        self.is_closed = True

    def waiting(self) -> list[int]:
        """Lanes that a frame may come from next: an urgent one, if there is any."""
        lanes = sorted(lane for lane, frames in self.lanes.items() if frames)
        urgent = [lane for lane in lanes if lane < FIRST_DATA_LANE]
        return urgent[:1] or lanes

    def start(self, lane: int, to: LinkReceiver) -> memoryview:
        """Ask for the room of the next frame of a lane, write half of it, and leave it at that."""
        head, payload = self.lanes[lane][0]
        assert payload is not None
        room = to.room_for(lane, head, payload.nbytes)
        room[: payload.nbytes // 2] = payload[: payload.nbytes // 2]
        return room

    def travel(self, to: LinkReceiver, lane: int | None = None) -> bool:
        """Bring the next frame, of any lane or of one, to the other end; whether there was one."""
        if lane is None:
            lanes = self.waiting()
            if not lanes:
                return False
            lane = lanes[0]
        head, payload = self.lanes[lane].popleft()
        if payload is not None:
            room = to.room_for(lane, head, payload.nbytes)
            assert room.nbytes == payload.nbytes
            room[:] = payload
        to.arrived(lane, head)
        return True


@dataclass
class Heard:
    """What a gateway has told."""

    ended: list[str] = field(default_factory=list)
    cancelled: int = 0
    failed: list[DflowError] = field(default_factory=list)

    def events(self) -> GatewayEvents:
        """Where it tells it."""
        return GatewayEvents(self.ended.append, self._cancelled, self.failed.append)

    def _cancelled(self) -> None:
        self.cancelled += 1


class Receiver(LinkReceiver):
    """Hands frames to an intake."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def room_for(self, lane: int, head: bytes, size: int) -> memoryview:
        return self._intake.room_for(lane, size)

    def arrived(self, lane: int, head: bytes) -> None:
        self._intake.arrived(lane, head)

    def ended(self, error: DflowError | None) -> None:
        self._intake.ended(error)


class TellingMover(Mover):
    """A mover that tells its news itself."""

    def turn(self) -> None:
        super().turn()
        for tell in self.news():
            tell()


class End:
    """One machine, with a gateway whose turns the test takes.

    Args:
        plan: What crosses.
        memory: Bytes of its group.
        peer: The other machine in words.
        group: Its group, if there is one already.
    """

    def __init__(self, plan: GatewayPlan, memory: int, peer: str, group: MemoryGroup | None = None) -> None:
        self.plan = plan
        self.group = group or group_of(plan.queues, memory)
        self.link = ManualLink(peer)
        self.heard = Heard()
        self.rung = 0
        self.intake = Intake(self.group, self._ring)
        self.receiver = Receiver(self.intake)
        self.mover = TellingMover(self.group, self.link, plan, self.heard.events(), self.intake)
        notices = {queue.name: queue.notices for queue in plan.queues if queue.notices}
        self._writers = {q.name: sender(self.group, q.name, notices, q.max_age) for q in plan.queues}
        self._readers = {q.name: reader(self.group, q.name, notices) for q in plan.queues}

    def _ring(self) -> None:
        self.rung += 1

    def queue(self, name: str = "q") -> Queue:
        """A queue of its group."""
        return self.group.queue(name)

    def put(self, *trans_ids: int, queue: str = "q", value: object = None) -> None:
        """Put a message of each of some transactions into a queue."""
        for trans_id in trans_ids:
            self.send(message(trans_id, value), queue)

    def send(self, msg: FlowMsg, queue: str = "q") -> None:
        """Put a message into a queue, as a node does."""
        self._writers[queue].put(self.block(msg), 0.0)

    def block(self, msg: FlowMsg) -> Block:
        """A message in a block of its group."""
        block = seal(FlowMsg(msg.info, msg.body, msg.aux), self.group.alloc).block
        assert block is not None
        return block

    def taken(self, queue: str = "q") -> list[int]:
        """Transactions of the messages that can be taken out of a queue now."""
        return [msg.info.trans_id for msg in self.messages(queue)]

    def messages(self, queue: str = "q") -> list[FlowMsg]:
        """The messages that can be taken out of a queue now."""
        found = []
        try:
            while (block := self._readers[queue].get(0.0)) is not None:
                found.append(FlowMsg.from_block(block))
        except ClosedError:
            pass
        return found

    def flush(self) -> bool:
        """Send notices that wait at producers here; whether some still wait."""
        return flush(self._writers.values())

    def close(self) -> None:
        """End the gateway."""
        self.intake.close()
        self.mover.let_go()

    @property
    def in_use(self) -> int:
        """Blocks somebody holds."""
        return self.group.stats().blocks_in_use


class TwoMachines:
    """The application's machine and another one.

    Args:
        queues: The queues, alike on both.
        back: Names of those that lead to the application's machine; the others lead away from it.
        memory: Bytes of the groups: of the application's, of the other.
        group: That of the application's machine, if there is one already.
    """

    def __init__(
        self, queues: Sequence[QueuePlan], back: Sequence[str] = (), memory: tuple[int, int] = (1 << 20, 1 << 20),
        group: MemoryGroup | None = None,
    ) -> None:
        notices = {queue.notices for queue in queues}
        crossings = tuple(
            Crossing(queue.name, FAR, HEAD) if queue.name in back else Crossing(queue.name, HEAD, FAR)
            for queue in queues
            if queue.name not in notices
        )
        plan = GatewayPlan(HEAD, FAR, crossings, tuple(queues))
        self.head = End(plan, memory[0], "machine 'far' at 10.0.0.2:7070", group)
        self.far = End(GatewayPlan(FAR, HEAD, crossings, tuple(queues)), memory[1], "machine 'head' at 10.0.0.1:7070")

    @property
    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Each end, with the other one."""
        return (self.head, self.far), (self.far, self.head)

    def settle(self) -> None:
        """Take turns and let frames travel until nothing changes any more."""
        moved = True
        while moved:
            moved = False
            for end, other in self.ends:
                end.mover.turn()
                while end.link.travel(other.receiver):
                    moved = True

    def close(self) -> None:
        """End both gateways."""
        self.head.close()
        self.far.close()


def group_of(queues: Sequence[QueuePlan], memory: int) -> MemoryGroup:
    """A memory group with some queues."""
    group = InprocTransport().create_group(GroupConfig(memory_limit=memory))
    for queue in queues:
        group.create_queue(queue.name, queue.depth, Overflow(queue.overflow), queue.max_age)
    return group
