"""What becomes of the queues and messages of a process that is not started again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.deploy.supervision.lifecycle import Lifecycle, State
from dflow_core.deploy.supervision.member import Member
from dflow_core.deploy.supervision.restart_policy import RestartPolicy
from dflow_core.deploy.supervision.survivors import Survivors
from dflow_core.errors import ClosedError
from dflow_core.message import FlowMsg, MsgInfo
from dflow_core.model import Crossing, DeployPlan, InstancePlan, ProcessPlan, QueuePlan, Route
from dflow_core.spi import GroupConfig, MemoryGroup

QUEUES = ("q0", "q1", "q2")


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    with contextlib.closing(InprocTransport().create_group(GroupConfig(memory_limit=1 << 20))) as made:
        yield made


def member(number: int, *queues: str, state: State = State.RUNNING, node: str = "n") -> Member:
    instance = InstancePlan(node, number, 3, f"{node}#{number}", "cpu:0", 1, queues, ())
    life = Lifecycle(f"{node}#{number}", RestartPolicy())
    life.state = state
    return Member(ProcessPlan(f"{node}#{number}", "UDF", "", (instance,)), life, None)  # type: ignore[arg-type]  # prints nothing


def survivors(
    group: MemoryGroup, members: list[Member], depth: int = 8, crossings: tuple[Crossing, ...] = ()
) -> Survivors:
    """Instances with a queue each, fed by transaction."""
    for name in QUEUES:
        group.create_queue(name, depth)
    queues = tuple(QueuePlan(name, depth) for name in QUEUES)
    plan = DeployPlan("g", "", tuple(m.plan for m in members), queues, ((Route(QUEUES),),), (), 1, crossings=crossings)
    return Survivors(plan, group, lambda: members)


def put(group: MemoryGroup, queue: str, *trans_ids: int) -> None:
    for trans_id in trans_ids:
        block = group.alloc(256, 0.0)
        FlowMsg(MsgInfo(trans_id=trans_id)).write_to(block)
        group.queue(queue).put(block, 0.0)


def waiting(group: MemoryGroup, queue: str) -> list[int]:
    found = []
    with contextlib.suppress(ClosedError):
        while (block := group.queue(queue).get(0.0)) is not None:
            found.append(FlowMsg.from_block(block).info.trans_id)
    return found


@pytest.mark.parametrize(
    ("states", "alive"),
    [
        ((State.RUNNING, State.RUNNING), True), ((State.STARTING, State.FAILED), True),
        ((State.BACKOFF, State.STOPPED), True), ((State.FAILED, State.STOPPED), False),
        ((State.STOPPING, State.IDLE), False),
    ],
)
def test_another_instance_counts_where_it_works_or_will(
    group: MemoryGroup, states: tuple[State, State], alive: bool
) -> None:
    members = [member(0, "q0"), member(1, "q1", state=states[0]), member(2, "q2", state=states[1])]
    assert survivors(group, members).of(members[0]) is alive


def test_every_node_of_a_process_needs_another_instance(group: MemoryGroup) -> None:
    members = [member(0, "q0"), member(1, "q1"), member(0, "q2", node="alone")]
    assert not survivors(group, members).of(members[2])


@pytest.mark.parametrize(
    ("crossing", "alive"),
    [
        (Crossing("q0", "far", ""), False), (Crossing("q0", "", "far"), True), (Crossing("q1", "far", ""), True),
        (Crossing("shared", "far", ""), True),
    ],
    ids=["into_its_own_queue", "out_of_it", "into_another_one", "into_one_that_others_read_too"],
)
def test_others_cannot_do_the_work_that_another_machine_sends_it(
    group: MemoryGroup, crossing: Crossing, alive: bool
) -> None:
    members = [member(0, "q0", "shared"), member(1, "q1", "shared"), member(2, "q2", "shared")]
    assert survivors(group, members, crossings=(crossing,)).of(members[0]) is alive


def test_messages_of_its_own_queue_go_to_the_next_open_one_and_stay_in_order(group: MemoryGroup) -> None:
    members = [member(number, queue) for number, queue in enumerate(QUEUES)]
    made = survivors(group, members)
    put(group, "q0", 1, 4, 7)
    put(group, "q1", 2)
    made.take_over(members[0])
    assert not made.pending
    with pytest.raises(ClosedError):
        put(group, "q0", 10)
    assert (waiting(group, "q1"), waiting(group, "q2")) == ([2, 1, 4, 7], [])


def test_a_second_loss_moves_on_past_both_closed_queues(group: MemoryGroup) -> None:
    members = [member(number, queue) for number, queue in enumerate(QUEUES)]
    made = survivors(group, members)
    put(group, "q0", 1)
    made.take_over(members[0])
    members[0].life.state = State.FAILED
    made.take_over(members[1])
    assert (waiting(group, "q2"), made.pending) == ([1], False)


def test_a_queue_that_others_read_too_stays_open(group: MemoryGroup) -> None:
    members = [member(0, "q0"), member(1, "q0"), member(2, "q2")]
    made = survivors(group, members)
    put(group, "q0", 1)
    made.take_over(members[0])
    assert waiting(group, "q0") == [1]


def test_what_finds_no_room_waits_for_it(group: MemoryGroup) -> None:
    members = [member(number, queue) for number, queue in enumerate(QUEUES)]
    made = survivors(group, members, depth=2)
    put(group, "q0", 1, 4)
    put(group, "q1", 2)
    made.take_over(members[0])
    assert made.pending
    assert waiting(group, "q1") == [2, 1]
    made.move()
    assert not made.pending and waiting(group, "q1") == [4]


def test_messages_of_a_graph_that_ends_are_let_go(group: MemoryGroup) -> None:
    members = [member(number, queue) for number, queue in enumerate(QUEUES)]
    made = survivors(group, members)
    put(group, "q0", 1)
    for queue in ("q1", "q2"):
        group.queue(queue).close()
    made.take_over(members[0])
    assert not made.pending and group.stats().bytes_in_use == 0
