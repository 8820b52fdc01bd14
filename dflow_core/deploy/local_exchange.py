"""Models of a running graph exchanged for others on this machine: heirs come up, and take over while it is at rest."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence

from dflow_core.deploy.lifecycle import State
from dflow_core.deploy.member import Member
from dflow_core.deploy.model_files import ModelFiles
from dflow_core.deploy.supervisor import Supervisor
from dflow_core.errors import ClosedError, DeployError
from dflow_core.model import PneModel
from dflow_core.spi import Exchange

_KILL_LIMIT = 5.0


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
        self._pairs: dict[Member, Member] = {}
        for member in supervisor.members:
            if any(instance.model in names for instance in member.plan.instances):
                policy = supervisor.policy_of(member.plan)
                self._pairs[member] = supervisor.succession.heir_of(member, self._files, policy)

    def load(self) -> None:
        """Start the heirs, and wait until they have loaded.

        Raises:
            StartupError: one has not; nothing of them is left.
        """
        heirs = tuple(self._pairs.values())
        self._supervisor.post(lambda: self._supervisor.succession.bring_up(heirs))
        for heir in heirs:
            assert heir.heir is not None
            heir.heir.settled.wait()  # every start has a limit of its own
            if heir.life.state is not State.RUNNING:
                self.abandon()
                raise heir.heir.failure or self._supervisor.failure or ClosedError("the graph was closed meanwhile")
        self._files.drop()

    def commit(self, timeout: float) -> None:
        done, supervisor = threading.Event(), self._supervisor

        def begin() -> None:
            supervisor.models = self._models
            self._adopt(self._models)
            supervisor.succession.exchange(self._pairs, done)

        def kill() -> None:
            for old in self._pairs:
                if old.process is not None:
                    old.process.kill(signal.SIGKILL)

        supervisor.post(begin)
        if not done.wait(timeout):
            supervisor.post(kill)
            if not done.wait(_KILL_LIMIT):
                raise supervisor.failure or DeployError("the processes of the old model did not end")
        self._files.drop()

    def abandon(self) -> None:
        heirs = tuple(self._pairs.values())
        self._supervisor.post(lambda: self._supervisor.succession.dismiss(heirs))
        self._files.drop()
