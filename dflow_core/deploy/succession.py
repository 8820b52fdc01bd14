"""One process takes the place of another while the graph runs: both are up for a while, and one of them works.

An heir is a member beside those of the plan, with the same queues. It loads and waits. When the graph is at rest, the
old one retires, and the heir goes in its place and is told to go. Belongs to the supervisor's thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence

from dflow_core.deploy.lifecycle import Begin, Event, Lifecycle, State, StopAsked
from dflow_core.deploy.member import Heir, Member
from dflow_core.deploy.model_files import ModelFiles
from dflow_core.deploy.orders import Answer, OrderDesk
from dflow_core.deploy.restart_policy import RestartPolicy
from dflow_core.errors import DflowError
from dflow_core.message import HEAD_SIZE, FlowMsg
from dflow_core.model.control_serde import OrderKind
from dflow_core.spi import MemoryGroup


class Succession:
    """The heirs of a deployment.

    Args:
        group: Memory group of the queues.
        desk: Gives orders.
        handle: Has a lifecycle take an event.
    """

    def __init__(self, group: MemoryGroup, desk: OrderDesk, handle: Callable[[Member, Event], None]) -> None:
        self._group, self._desk, self._handle = group, desk, handle
        self.heirs: tuple[Member, ...] = ()
        self._pairs: Mapping[Member, Member] = {}
        self._done: threading.Event | None = None
        self._answer = Answer()

    @property
    def pending(self) -> bool:
        """Whether members retire, so that `advance` is to be called again soon."""
        return self._done is not None

    @staticmethod
    def heir_of(member: Member, files: ModelFiles, policy: RestartPolicy) -> Member:
        """A member that can take the place of another."""
        life = Lifecycle(member.plan.name, policy)
        return Member(member.plan, life, member.log, heir=Heir(files, threading.Event()))

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

    def exchange(self, pairs: Mapping[Member, Member], done: threading.Event) -> None:
        """Retire members; their heirs follow when the last of them has ended.

        Args:
            pairs: The heir of each member.
            done: Set when the heirs work.
        """
        self._pairs, self._done, self._answer = dict(pairs), done, Answer()
        self._desk.give([old for old in pairs if old.life.state is State.RUNNING], OrderKind.RETIRE, self._answer)
        for old in pairs:
            old.retired = True
            if old.life.state is not State.RUNNING and old.process is not None:
                old.process.kill()
            self._handle(old, StopAsked())

    def advance(self, members: tuple[Member, ...]) -> tuple[Member, ...]:
        """The members there are now, after something has ended."""
        self._forget_ended()
        if self._done is None:
            return members
        if not all(old.life.settled and old.process is None for old in self._pairs):
            if self._answer.complete.is_set():
                self._wake()
            return members
        for old in self._pairs:
            self._drain(old)
        heirs, done = tuple(self._pairs.values()), self._done
        members = tuple(self._pairs.get(member, member) for member in members)
        self.heirs = tuple(heir for heir in self.heirs if heir not in heirs)
        self._pairs, self._done = {}, None
        for heir in heirs:
            heir.heir = None
        self._desk.give(heirs, OrderKind.GO)
        done.set()
        return members

    def _wake(self) -> None:
        """Wake instances that wait in their only queue: an empty message does, as all of its readers retire."""
        inputs = [i.inputs[0] for old in self._pairs for i in old.plan.instances if len(i.inputs) == 1]
        for name in set(inputs):
            with contextlib.suppress(DflowError):
                queue = self._group.queue(name)
                if not queue.level():
                    block = self._group.alloc(HEAD_SIZE)
                    FlowMsg().write_to(block)
                    queue.put(block, 0.0)

    def _drain(self, old: Member) -> None:
        """Take what woke the instances out of their queues; there is nothing else in them."""
        for name in {name for instance in old.plan.instances for name in instance.inputs}:
            with contextlib.suppress(DflowError):
                queue = self._group.queue(name)
                while (block := queue.get(0.0)) is not None:
                    block.release()

    def _forget_ended(self) -> None:
        self.heirs = tuple(heir for heir in self.heirs if not heir.life.settled or heir.process is not None)
