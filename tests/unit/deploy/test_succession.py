"""What takes the place of what, and when, without a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.deploy.children.model_files import ModelFiles
from dflow_core.deploy.supervision.lifecycle import (
    Begin,
    Ended,
    Event,
    Lifecycle,
    Loaded,
    NotLoaded,
    State,
    StopAsked,
    Timer,
)
from dflow_core.deploy.supervision.member import Member
from dflow_core.deploy.supervision.orders import OrderDesk
from dflow_core.deploy.supervision.restart_policy import RestartPolicy
from dflow_core.deploy.supervision.succession import Handover, Succession, why_missing
from dflow_core.errors import ClosedError, DflowError, StartupError
from dflow_core.message import MsgInfo, encode
from dflow_core.model import DeadPart, InstancePlan, ProcessPlan
from dflow_core.model.control_serde import Failure, Obeyed, OrderKind
from dflow_core.spi import GroupConfig


class Scene:
    """Node `n` with two instances that share the queue `in`, and their heirs, all loaded."""

    def __init__(self) -> None:
        self.group = InprocTransport().create_group(GroupConfig())
        self.group.create_queue("in", 4)
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.desk = OrderDesk()
        self.succession = Succession(
            self.group, self.desk, self.handle, lambda seconds, call: self.timers.append((seconds, call))
        )
        self.killed: list[Member] = []
        self.sent: dict[Member, list[OrderKind]] = {}
        policy, files = RestartPolicy(), ModelFiles({})
        self.old = tuple(self.started(Member(self.plan(i), Lifecycle("n", policy), self.log())) for i in range(2))
        self.heirs = tuple(self.succession.heir_of(member, files, policy) for member in self.old)
        self.succession.bring_up(self.heirs)
        for heir in self.heirs:
            self.started(heir)
        self.members = self.old
        self.adopted = 0
        self.handover = Handover(dict(zip(self.old, self.heirs)), 7.0, self.adopt)

    @staticmethod
    def plan(index: int) -> ProcessPlan:
        instance = InstancePlan("n", index, 2, f"n#{index}", "cpu:0", 1, ("in",), ())
        return ProcessPlan(f"n#{index}", "UDF", "", (instance,))

    @staticmethod
    def log() -> SimpleNamespace:
        return SimpleNamespace(tail=lambda: "last words")

    def adopt(self) -> None:
        self.adopted += 1

    def handle(self, member: Member, event: Event) -> None:
        member.life.handle(event, 0.0)

    def started(self, member: Member) -> Member:
        """The member as it is once it has loaded."""
        orders = self.sent.setdefault(member, [])
        connection = SimpleNamespace(send=lambda message: orders.append(message.kind))
        member.process = SimpleNamespace(connection=connection, kill=lambda: self.killed.append(member))
        if member.life.state is State.IDLE:
            self.handle(member, Begin())
        self.handle(member, Loaded())
        return member

    def ends(self, member: Member) -> None:
        """Its process is gone."""
        self.handle(member, Ended("is gone"))
        member.process = None
        self.desk.forget(member)

    def leaves(self, member: Member) -> None:
        """Its instance has left its queues and closes its functions."""
        member.done.add(("n", member.plan.instances[0].index))

    def put(self, *ids: int) -> None:
        for trans_id in ids:
            block = encode(np.zeros(1), MsgInfo(trans_id=trans_id), self.group.alloc).block
            assert block is not None
            self.group.queue("in").put(block, 0)

    def queued(self) -> list[int]:
        """Transactions in the queue; 0 is a message that only wakes."""
        found = []
        while (block := self.group.queue("in").get(0.0)) is not None:
            found.append(MsgInfo.unpack(block.array())[0].trans_id)
            block.release()
        return found

    def obey(self, *members: Member) -> None:
        for member in members:
            self.desk.take(member, Obeyed(1))

    def go_on(self) -> None:
        self.members = self.succession.advance(self.members)

    @property
    def facts(self) -> tuple[bool, bool, bool]:
        """Whether the heirs work, whether all old ones are gone, and whether it is to be looked after soon."""
        return self.handover.switched.is_set(), self.handover.ended.is_set(), self.succession.pending


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Loaded, and nothing begun."""
    made = Scene()
    yield made
    made.group.close()


def test_heirs_work_as_soon_as_the_last_old_one_has_left_its_queues(scene) -> None:
    a, b = scene.old
    scene.succession.begin(scene.handover)
    assert (scene.adopted, scene.sent[a], scene.sent[b]) == (1, [OrderKind.RETIRE], [OrderKind.RETIRE])
    scene.leaves(a)
    scene.go_on()
    assert scene.facts == (False, False, True) and scene.members == scene.old
    scene.leaves(b)
    scene.go_on()
    assert scene.facts == (True, False, False) and scene.members == scene.heirs and scene.succession.heirs == ()
    assert all(scene.sent[heir] == [OrderKind.GO] and heir.heir is None for heir in scene.heirs)
    assert scene.succession.retired == scene.old, "they close their functions"
    for old in scene.old:
        assert old.retired
        scene.ends(old)
        scene.go_on()
    assert scene.facts == (True, True, False) and not scene.killed


def test_one_that_dies_instead_of_leaving_counts_as_gone(scene) -> None:
    scene.succession.begin(scene.handover)
    scene.leaves(scene.old[0])
    scene.ends(scene.old[1])
    scene.go_on()
    assert scene.facts == (True, False, False) and scene.members == scene.heirs


def test_those_that_do_not_end_are_killed_at_the_limit(scene) -> None:
    scene.succession.begin(scene.handover)
    scene.ends(scene.old[0])
    (seconds, call), = scene.timers
    call()
    assert seconds == 7.0 and scene.killed == [scene.old[1]]


@pytest.mark.parametrize("state", ["restarting", "starting"])
def test_an_old_one_that_is_not_running_is_not_waited_for(scene, state) -> None:
    a, b = scene.old
    scene.ends(a)
    if state == "starting":
        a.process = SimpleNamespace(kill=lambda: scene.killed.append(a))
        scene.handle(a, Timer())
    assert a.life.state.value == state
    scene.succession.begin(scene.handover)
    scene.leaves(b)
    scene.go_on()
    if state == "starting":
        assert scene.killed == [a] and not scene.handover.switched.is_set()
        scene.ends(a)
        scene.go_on()
    assert scene.handover.switched.is_set() and scene.sent[a] == []


def test_one_whose_work_others_do_for_good_gets_no_heir(scene) -> None:
    """Its queues belong to them now; what was loaded for it goes."""
    lost, other = scene.old
    for _ in range(4):
        scene.ends(lost)
        if lost.life.state is State.FAILED:
            break
        lost.life.state = State.RUNNING
    scene.succession.begin(scene.handover)
    assert scene.killed == [scene.heirs[0]] and list(scene.handover.pairs) == [other]
    scene.leaves(other)
    scene.go_on()
    assert scene.members == (lost, scene.heirs[1]) and scene.handover.switched.is_set()


WAYS: dict[str, tuple[list[Event], type[DflowError], str]] = {
    "dead": ([Ended("was ended by signal 9")], StartupError, "died before it could take over; the old version stays"),
    "closing": ([StopAsked()], ClosedError, "closed while a node was updated"),
    "closed": ([StopAsked(), Ended("is gone")], ClosedError, "closed while a node was updated"),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_changes_if_an_heir_is_not_there(scene, way) -> None:
    events, kind, text = WAYS[way]
    for event in events:
        scene.handle(scene.heirs[1], event)
    scene.succession.begin(scene.handover)
    assert isinstance(scene.handover.failure, kind) and text in str(scene.handover.failure)
    assert scene.facts == (True, True, False) and scene.adopted == 0
    assert all(scene.sent[old] == [] and old.life.state is State.RUNNING and not old.retired for old in scene.old)
    scene.go_on()
    assert scene.members == scene.old


def test_what_an_heir_says_of_itself_is_why_it_is_missing(scene) -> None:
    heir = scene.heirs[0]
    heir.heir.failure = StartupError("its own words")
    assert why_missing(heir) is heir.heir.failure


def test_heirs_that_are_not_wanted_are_killed_and_forgotten_when_they_are_gone(scene) -> None:
    late = scene.succession.heir_of(scene.old[0], ModelFiles({}), RestartPolicy())
    scene.succession.bring_up([late])  # loads yet
    scene.succession.dismiss([*scene.heirs, late])
    assert scene.killed == list(scene.heirs) and {heir.life.state for heir in scene.heirs} == {State.STOPPING}
    for heir in scene.heirs:
        scene.ends(heir)
    scene.handle(late, NotLoaded(Failure("lost", "too late")))
    scene.handle(late, Ended("is gone"))
    scene.go_on()
    assert scene.succession.heirs == () and scene.members == scene.old
    scene.succession.dismiss(scene.heirs)  # once more does nothing


def test_instances_that_wait_in_their_only_queue_are_woken_and_that_is_taken_out_again(scene) -> None:
    scene.succession.begin(scene.handover)
    scene.go_on()
    assert scene.queued() == [], "they may be about to see the order"
    scene.obey(*scene.old)
    scene.go_on()
    scene.go_on()
    assert scene.queued() == [0], "one message, however often it is looked at"
    scene.go_on()
    for old in scene.old:
        scene.leaves(old)
    scene.go_on()
    assert scene.handover.switched.is_set() and scene.queued() == []


def test_what_belongs_to_transactions_that_ended_early_stays_in_order(scene) -> None:
    scene.succession.begin(scene.handover)
    scene.obey(*scene.old)
    scene.go_on()
    scene.put(3, 4)
    for old in scene.old:
        scene.leaves(old)
    scene.go_on()
    assert scene.queued() == [3, 4]


def test_what_finds_no_room_again_is_put_back_later(scene) -> None:
    queue = scene.group.queue("in")
    scene.succession.begin(scene.handover)
    scene.put(3, 4)
    take, taken = type(queue).get, []

    def get(self, timeout):
        block = take(self, timeout)
        if not taken:  # somebody fills the queue up behind our back
            taken.append(block)
            scene.put(5, 6, 7)
        return block

    type(queue).get = get
    try:
        for old in scene.old:
            scene.leaves(old)
        scene.go_on()
    finally:
        type(queue).get = take
    assert scene.succession.pending
    found = scene.queued()
    scene.go_on()
    assert sorted(found + scene.queued()) == [3, 4, 5, 6, 7] and not scene.succession.pending


def test_what_an_interrupted_update_left_behind_is_kept_in_view_by_the_next(scene) -> None:
    """Nobody waits for those that retire any more, and they still have to be ended with the graph."""
    scene.succession.begin(scene.handover)
    for old in scene.old:
        scene.leaves(old)
    scene.go_on()
    files, policy = ModelFiles({}), RestartPolicy()
    pairs = {heir: scene.succession.heir_of(heir, files, policy) for heir in scene.heirs}
    again = Handover(pairs, 7.0, scene.adopt)
    scene.succession.bring_up(tuple(again.pairs.values()))
    for heir in again.pairs.values():
        scene.started(heir)
    scene.succession.begin(again)
    for heir in scene.heirs:
        scene.leaves(heir)
    scene.go_on()
    assert again.switched.is_set() and scene.succession.retired == (*scene.old, *scene.heirs)
    for heir in scene.heirs:
        scene.ends(heir)
    scene.go_on()
    assert again.ended.is_set() and scene.succession.retired == scene.old
    scene.timers[0][1]()
    assert scene.killed == list(scene.old), "the limit of the first update holds for them"


def test_no_update_begins_while_the_processes_of_another_are_in_their_queues(scene) -> None:
    scene.succession.begin(scene.handover)
    again = Handover({scene.old[0]: scene.heirs[0]}, 7.0, scene.adopt)
    scene.succession.begin(again)
    assert "has not ended yet" in str(again.failure) and again.switched.is_set() and scene.adopted == 1
    for old in scene.old:
        scene.leaves(old)
    scene.go_on()
    assert scene.handover.switched.is_set() and scene.members == scene.heirs


def test_an_heir_knows_what_was_lost_before(scene) -> None:
    """So that its joins do not wait for it."""
    part = DeadPart("n", 0, 7, 0, (1,))
    scene.old[0].dead_parts.append(part)
    heir = scene.succession.heir_of(scene.old[0], ModelFiles({}), RestartPolicy())
    assert heir.dead_parts == [part] and heir.dead_parts is not scene.old[0].dead_parts
