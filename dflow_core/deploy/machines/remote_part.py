"""The part of a graph that a daemon runs, as the machine of the application sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dflow_core.deploy.machines.conversation import Conversation
from dflow_core.deploy.machines.faults import error_from
from dflow_core.deploy.machines.switch import Switch
from dflow_core.deploy.machines.talk import Answer, Ask, Broken, Deploy, Note, Question, Raised, Request
from dflow_core.errors import ClosedError, DflowError, LinkLostError, UsageError
from dflow_core.model import DeployPlan, ExceptionNote, Machine
from dflow_core.spi import Gateway, InstanceStatus, Link, QueueStats

_STATUS_LIMIT = 1.0
_STACKS_LIMIT = 5.0
_SLACK = 5.0
"""Seconds that an answer may take on top of what was allowed for the work."""


class RemotePart:
    """Speaks to a daemon about one graph. Thread-safe.

    Args:
        machine: The machine.
        link: The link to its daemon; it ends with this.
        raised: Takes an exception that a function there raised.
        broken: Told once why the part cannot go on.
    """

    def __init__(
        self, machine: Machine, link: Link, raised: Callable[[ExceptionNote], None],
        broken: Callable[[DflowError], None],
    ) -> None:
        self.machine, self.link = machine, link
        self._raised, self._broken = raised, broken
        self._last: tuple[InstanceStatus, ...] = ()
        self._queues: tuple[QueueStats, ...] = ()
        self._gateway: Gateway | None = None
        self._conversation = Conversation(link, self._refuse, self._hear)
        self._switch = Switch(self._conversation.take, self._ended)
        link.begin(self._switch)

    def deploy(self, plan: DeployPlan, options: Mapping[str, str], model: bytes, timeout: float) -> None:
        """Start the part; returns when it is ready.

        Args:
            plan: The part.
            options: Graph options in force.
            model: The graph as an OM file.
            timeout: Seconds it may take.

        Raises:
            DflowError: what the daemon says, or that it says nothing.
        """
        self._conversation.ask(Deploy(plan, options, model), timeout)

    def join(self, gateway: Gateway) -> None:
        """Move messages from now on, by a gateway of this machine."""
        self._gateway = gateway
        gateway.begin()
        self._switch.join(gateway)

    def end_moving(self) -> None:
        """Move no messages any more."""
        if self._gateway is not None:
            self._gateway.close()

    def tell_cancelled(self) -> None:
        """Tell it that the board of cancelled transactions has changed."""
        if self._gateway is not None:
            self._gateway.tell_cancelled()

    def tell_exception(self, note: ExceptionNote) -> None:
        """Tell functions there of an exception."""
        self._conversation.tell(Raised(note))

    def status(self) -> Sequence[InstanceStatus]:
        """State of its instances; what was last known where it does not answer."""
        with contextlib.suppress(DflowError):
            found = self._conversation.ask(Ask(Question.STATUS), _STATUS_LIMIT).statuses
            self._last = tuple(replace(one, machine=self.machine.name) for one in found)
        return self._last

    def queues(self) -> Sequence[QueueStats]:
        """Counters of its queues; what was last known where it does not answer."""
        with contextlib.suppress(DflowError):
            found = self._conversation.ask(Ask(Question.QUEUES), _STATUS_LIMIT).queues
            self._queues = tuple(replace(one, name=f"{self.machine.name}: {one.name}") for one in found)
        return self._queues

    def stacks(self) -> Mapping[str, str]:
        """Stacks of its executors by process name."""
        try:
            return self._conversation.ask(Ask(Question.STACKS), _STACKS_LIMIT).stacks
        except DflowError as error:
            return {self.machine.name: str(error)}

    def suspend(self, timeout: float) -> bool:
        """See `Deployment.suspend`."""
        return self._conversation.ask(Ask(Question.SUSPEND, timeout), timeout + _SLACK).verdict is True

    def resume(self) -> None:
        """See `Deployment.resume`."""
        self._conversation.ask(Ask(Question.RESUME), _SLACK)

    def discard(self, timeout: float) -> bool | None:
        """See `Deployment.discard`; what its gateways hold is thrown away too."""
        found = self._conversation.ask(Ask(Question.DISCARD, timeout), timeout + _SLACK).verdict
        here = self._gateway is None or self._gateway.discard()
        return None if found is None else found and here

    def close(self, timeout: float) -> None:
        """End the part, within a limit (seconds), and the link. Idempotent."""
        with contextlib.suppress(DflowError):  # it is lost, and ends what runs there itself
            self._conversation.ask(Ask(Question.CLOSE, timeout), timeout + _SLACK)
        self._conversation.end(ClosedError(f"what runs on {self.link.peer} was ended"))
        self.end_moving()
        self.link.close()

    def _hear(self, note: Note) -> None:
        if isinstance(note, Raised):
            self._raised(note.note)
        elif isinstance(note, Broken):
            self._broken(error_from(note.failure, self.link.peer))

    def _ended(self, error: DflowError | None) -> None:
        why = error or LinkLostError(f"{self.link.peer} has ended", hint="look at what its daemon says")
        self._conversation.end(why)
        self._broken(why)

    def _refuse(self, request: Request) -> Answer:
        raise UsageError(f"a daemon asks nothing, but this one asked {type(request).__name__}")
