"""Models of a running graph exchanged for others on this machine: heirs come up, and take over while it is at rest."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dflow_core.deploy.children.model_files import ModelFiles
from dflow_core.deploy.supervision.lifecycle import State
from dflow_core.deploy.supervision.member import Member
from dflow_core.deploy.supervision.succession import Handover, why_missing
from dflow_core.deploy.supervision.supervisor import Supervisor
from dflow_core.errors import ClosedError, DeployError
from dflow_core.model import PneModel
from dflow_core.spi import Exchange

_KILL_LIMIT = 5.0
_SLICE = 0.5


class LocalExchange(Exchange):
    """Heirs of the processes that hold some models.

    Args:
        supervisor: Runs the processes.
        models: All submodels as they are to be, by name.
        names: Those that are exchanged.
        adopt: Told in the supervisor's thread when they are in force.
    """

    def __init__(
        self, supervisor: Supervisor, models: Mapping[str, PneModel], names: Sequence[str],
        adopt: Callable[[Mapping[str, PneModel]], None],
    ) -> None:
        self._supervisor, self._models, self._adopt = supervisor, models, adopt
        self._files = ModelFiles(models)
        self._handover: Handover | None = None
        self._interrupt: BaseException | None = None
        self._pairs: dict[Member, Member] = {}
        for member in supervisor.members:
            is_held = any(instance.model in names for instance in member.plan.instances)
            if is_held and member.life.state is not State.FAILED:
                policy = supervisor.policy_of(member.plan)
                self._pairs[member] = supervisor.succession.heir_of(member, self._files, policy)

    def load(self) -> None:
        """Start the heirs, and wait until they have loaded.

        Raises:
            StartupError: one has not; nothing of them is left.
            ClosedError: the graph was closed.
        """
        heirs = tuple(self._pairs.values())
        try:
            self._supervisor.post(lambda: self._supervisor.succession.bring_up(heirs))
            for heir in heirs:
                assert heir.heir is not None
                self._wait(heir.heir.settled)  # every start has a limit of its own
                if heir.life.state is not State.RUNNING:
                    raise heir.heir.failure or self._supervisor.failure or why_missing(heir)
        except BaseException:
            self.abandon()
            raise
        self._files.drop()

    def commit(self, timeout: float) -> None:
        supervisor = self._supervisor

        def adopt() -> None:
            supervisor.models = self._models
            self._adopt(self._models)

        self._handover = handover = Handover(self._pairs, timeout, adopt)
        supervisor.post(lambda: supervisor.succession.begin(handover))
        limit = time.monotonic() + timeout + _KILL_LIMIT
        try:
            self._wait(handover.switched, limit)
        except BaseException as error:  # an interrupt: what has begun is carried through, so that its end is known
            self._interrupt = error
            self._wait(handover.switched, limit)
        if handover.failure is None and not handover.switched.is_set():
            handover.failure = supervisor.failure or DeployError("the executors of the old version did not end")
        if handover.failure is not None:
            self._handover = None
            raise self._interrupt or handover.failure

    def finish(self) -> None:
        if self._handover is not None:
            self._wait(self._handover.ended, time.monotonic() + self._handover.limit + _KILL_LIMIT)
        self._files.drop()
        if self._interrupt is not None:
            raise self._interrupt

    def abandon(self) -> None:
        if self._handover is None:
            heirs = tuple(self._pairs.values())
            self._supervisor.post(lambda: self._supervisor.succession.dismiss(heirs))
        self._files.drop()

    def _wait(self, event: threading.Event, limit: float = math.inf) -> None:
        """Wait for an event until the limit (monotonic seconds), or until nobody is left who could set it.

        Raises:
            ClosedError: the graph was closed.
        """
        while not event.wait(min(_SLICE, max(0.0, limit - time.monotonic()))) and time.monotonic() < limit:
            if self._supervisor.ended and not event.is_set():
                raise self._supervisor.failure or ClosedError("the graph was closed while a node was updated")
