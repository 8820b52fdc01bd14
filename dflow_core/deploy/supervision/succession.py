"""One process takes the place of another while the graph runs: both are up for a while, and one of them works.

An heir is a member beside those of the plan, with the same queues. It loads and waits. When the graph is at rest, the
old one is told to retire; as soon as it has left its queues, the heir goes in its place and works, while the old one
closes its functions and ends. Belongs to the supervisor's thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.deploy.children.model_files import ModelFiles
from dflow_core.deploy.supervision.lifecycle import Begin, Event, Lifecycle, State, StopAsked
from dflow_core.deploy.supervision.member import Heir, Member
from dflow_core.deploy.supervision.orders import Answer, OrderDesk
from dflow_core.deploy.supervision.restart_policy import RestartPolicy
from dflow_core.errors import ClosedError, DeployError, DflowError, StartupError, WaitTimeoutError
from dflow_core.message import HEAD_SIZE, Block, FlowMsg, MsgInfo
from dflow_core.model.control_serde import OrderKind
from dflow_core.spi import MemoryGroup


@dataclass(slots=True, eq=False)
class Handover:
    """Members that retire, and the heirs that follow them; any thread may wait for the events.

    Args:
        pairs: The heir of each member.
        limit: Seconds from the begin after which those that have not ended are killed.
        adopt: Called when it begins, after which it is carried through.
        switched: Set when the heirs work, or if it did not begin.
        ended: Set when the last of those that retire has ended, or if it did not begin.
        failure: Why it did not begin; nothing has changed then.
    """

    pairs: Mapping[Member, Member]
    limit: float
    adopt: Callable[[], None]
    switched: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    failure: DflowError | None = None


class Succession:
    """The heirs of a deployment, and those they follow.

    Args:
        group: Memory group of the queues.
        desk: Gives orders.
        handle: Has a lifecycle take an event.
        after: Has a call made in some seconds.
    """

    def __init__(
        self, group: MemoryGroup, desk: OrderDesk, handle: Callable[[Member, Event], None],
        after: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self._group, self._desk, self._handle, self._after = group, desk, handle, after
        self.heirs: tuple[Member, ...] = ()
        self.retired: tuple[Member, ...] = ()
        self._handover: Handover | None = None
        self._answer = Answer()
        self._back: deque[tuple[str, Block]] = deque()

    @property
    def pending(self) -> bool:
        """Whether `advance` is to be called again soon."""
        return bool(self._back) or (self._handover is not None and not self._handover.switched.is_set())

    @staticmethod
    def heir_of(member: Member, files: ModelFiles, policy: RestartPolicy) -> Member:
        """A member that can take the place of another."""
        life = Lifecycle(member.plan.name, policy)
        dead_parts = list(member.dead_parts)
        return Member(member.plan, life, member.log, dead_parts=dead_parts, heir=Heir(files, threading.Event()))

    def bring_up(self, heirs: Sequence[Member]) -> None:
        """Start heirs; they wait when they have loaded."""
        self.heirs = (*self.heirs, *heirs)
        for heir in heirs:
            self._handle(heir, Begin())

    def dismiss(self, heirs: Sequence[Member]) -> None:
        """End heirs that are not wanted after all."""
        for heir in heirs:
            if not heir.life.settled:
                self._handle(heir, StopAsked())
            if heir.process is not None:
                heir.process.kill()
        self._forget_ended()

    def begin(self, handover: Handover) -> None:
        """Retire members, unless an heir is not there to follow: then nothing changes, and it says why."""
        missing = next((heir for heir in handover.pairs.values() if heir.life.state is not State.RUNNING), None)
        before = self._handover
        if before is not None and not before.switched.is_set():  # whoever began it was interrupted twice
            handover.failure = DeployError("the update before it has not ended yet", hint="wait a little")
        elif missing is not None:
            handover.failure = why_missing(missing)
        if handover.failure is not None:
            handover.switched.set()
            handover.ended.set()
            return
        gone = [old for old in handover.pairs if old.life.state is State.FAILED]
        self.dismiss([handover.pairs[old] for old in gone])  # others do its work, and its queues are theirs
        handover.pairs = {old: heir for old, heir in handover.pairs.items() if old not in gone}
        handover.adopt()
        self._handover, self._answer = handover, Answer()
        self._after(handover.limit, lambda: self._kill(handover))
        self._desk.give([o for o in handover.pairs if o.life.state is State.RUNNING], OrderKind.RETIRE, self._answer)
        for old in handover.pairs:
            old.retired = True
            if old.life.state is not State.RUNNING and old.process is not None:
                old.process.kill()
            self._handle(old, StopAsked())

    def advance(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """The members there are now, after something has happened."""
        self._forget_ended()
        self._put_back()
        handover = self._handover
        if handover is None:
            return members
        if not handover.switched.is_set():
            if all(old.finished or _has_ended(old) for old in handover.pairs):
                members = self._switch(handover, members)
            elif self._answer.complete.is_set():
                self._wake(handover)
        if handover.switched.is_set() and all(_has_ended(old) for old in handover.pairs):
            self._handover = None
            handover.ended.set()
        return members

    def _switch(self, handover: Handover, members: tuple[Member, ...]) -> tuple[Member, ...]:
        for name in {name for old in handover.pairs for i in old.plan.instances for name in i.inputs}:
            self._sift(name)
        heirs = tuple(handover.pairs.values())
        members = tuple(handover.pairs.get(member, member) for member in members)
        self.heirs = tuple(heir for heir in self.heirs if heir not in heirs)
        self.retired = (*self.retired, *(old for old in handover.pairs if not _has_ended(old)))
        for heir in heirs:
            heir.heir = None
        self._desk.give(heirs, OrderKind.GO)
        handover.switched.set()
        return members

    def _wake(self, handover: Handover) -> None:
        """Wake instances that wait in their only queue: an empty message does, as all of its readers retire."""
        inputs = [i.inputs[0] for old in handover.pairs for i in old.plan.instances if len(i.inputs) == 1]
        for name in set(inputs):
            with contextlib.suppress(DflowError):
                queue = self._group.queue(name)
                if not queue.level():
                    block = self._group.alloc(HEAD_SIZE)
                    FlowMsg().write_to(block)
                    queue.put(block, 0.0)

    def _sift(self, name: str) -> None:
        """Take what woke the instances out of a queue that nobody reads now.

        What else is in it belongs to transactions that have ended, with an error say; it stays, as somebody may wait
        for what becomes of it.
        """
        with contextlib.suppress(DflowError):
            queue = self._group.queue(name)
            for _ in range(queue.level()):
                block = queue.get(0.0)
                if block is None:
                    return
                if MsgInfo.unpack(block.array())[0].trans_id:
                    self._back.append((name, block))
                else:
                    block.release()
            self._put_back()

    def _put_back(self) -> None:
        for _ in range(len(self._back)):
            name, block = self._back.popleft()
            try:
                self._group.queue(name).put(block, 0.0)
            except WaitTimeoutError:
                self._back.append((name, block))
            except DflowError:
                block.release()  # the graph ends

    def _kill(self, handover: Handover) -> None:
        for old in handover.pairs:
            if old.process is not None:
                old.process.kill()

    def _forget_ended(self) -> None:
        self.heirs = tuple(heir for heir in self.heirs if not _has_ended(heir))
        self.retired = tuple(old for old in self.retired if not _has_ended(old))


def why_missing(heir: Member) -> DflowError:
    """Why an heir is not there."""
    assert heir.heir is not None
    if heir.heir.failure is not None:
        return heir.heir.failure
    if heir.life.state in (State.STOPPING, State.STOPPED):
        return ClosedError("the graph was closed while a node was updated")
    only = heir.only
    return StartupError(
        "the executor of its new version died before it could take over; the old version stays",
        node=only.model if only else heir.plan.name, instance=only.index if only else None, output=heir.log.tail(),
    )


def _has_ended(member: Member) -> bool:
    return member.life.settled and member.process is None
