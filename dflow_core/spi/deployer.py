"""What starts a compiled graph somewhere and keeps it running."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dflow_core.errors import DflowError, UsageError
from dflow_core.model import DeployPlan, ExceptionNote, FlowModel, PneModel
from dflow_core.spi.transport import MemoryGroup, QueueStats


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """State of one instance.

    Args:
        node, instance: Which.
        process: Name of its process.
        pid: Its process id; 0 if it is not running.
        state: `starting`, `running`, `restarting`, `failed` or `stopped`.
        restarts: How often it was started again.
        calls: Calls finished.
        busy: Seconds spent in calls.
        current: Transaction in work and for how many seconds; None between calls, or where nobody knows.
        given_up: How many seconds ago it was given up, and why; None while it is not.
        failed: Calls that ended with an error; counted where it is on another machine, like `blocked` and `waiting`.
        blocked, waiting: Seconds spent waiting for room behind it and for input.
        machine: Machine it is on; "" for that of the application.
    """

    node: str
    instance: int
    process: str
    pid: int
    state: str
    restarts: int
    calls: int
    busy: float
    current: tuple[int, float] | None = None
    given_up: tuple[float, str] | None = None
    failed: int = 0
    blocked: float = 0.0
    waiting: float = 0.0
    machine: str = ""


class Exchange(abc.ABC):
    """Other models for some of a running graph's, loaded beside them."""

    @abc.abstractmethod
    def commit(self, timeout: float) -> None:
        """Let them take over, and return when they work; the graph must be at rest.

        The old ones end, by force after the limit (seconds).

        Raises:
            DflowError: nothing has changed.
        """

    def finish(self) -> None:
        """After `commit`, wait until the old ones have ended; the graph runs meanwhile."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Let them go, the old ones stay; nothing happens after they have taken over."""


class Deployment(abc.ABC):
    """A graph that runs."""

    group: MemoryGroup
    plan: DeployPlan

    @abc.abstractmethod
    def failure(self) -> DflowError | None:
        """Why the deployment cannot go on, or None while it can."""

    @abc.abstractmethod
    def status(self) -> Sequence[InstanceStatus]:
        """State of every instance."""

    @abc.abstractmethod
    def stacks(self) -> Mapping[str, str]:
        """Python stacks of the executors by process name, for stall reports; empty text where none came in time."""

    def queues_elsewhere(self) -> Sequence[QueueStats]:
        """Counters of queues on other machines, their names behind that of the machine; empty where all are here."""
        return ()

    def tell_cancelled(self) -> None:
        """Have executors that wait look at the board of cancelled transactions, where they can; any thread calls it."""

    def watch_exceptions(self, call: Callable[[ExceptionNote], None]) -> None:
        """Have a call made for each exception that a function raises, once for a transaction and scope.

        The deployment itself tells all functions of it.

        Args:
            call: Takes the exception; any thread calls it, and it must not wait.
        """

    def suspend(self, timeout: float) -> bool:
        """Let executors finish the calls at hand and begin no more; those that are started meanwhile begin none either.

        Returns:
            Whether all have done so within the limit (seconds).

        Raises:
            UsageError: this deployer cannot.
        """
        raise UsageError("this deployer cannot suspend a graph")

    def resume(self) -> None:
        """Let executors go on."""

    def discard(self, timeout: float) -> bool | None:
        """While suspended, have executors throw away all input and all they hold, and reset their functions.

        Returns:
            Whether there was nothing left to throw away; None if not all have answered within the limit (seconds).
        """
        return None

    def prepare(self, models: Mapping[str, PneModel]) -> Exchange:
        """Load other models in the place of some, beside the graph that runs.

        Args:
            models: By the names of those they replace, with the same ports.

        Raises:
            StartupError: one does not load; nothing has changed.
            UsageError: this deployer cannot.
        """
        raise UsageError("this deployer cannot exchange models of a graph that runs")

    def introduce(self, answer: Callable[[str], Mapping[str, object]]) -> None:
        """Let others on this machine ask how the graph does, where the deployer can.

        Args:
            answer: Gives the answer to a question (`ps` or `stacks`), as JSON can hold it; any thread calls it.
        """

    @abc.abstractmethod
    def close(self, timeout: float | None = None) -> None:
        """End every process, politely first, within the limit (seconds; None is the deployer's own)."""


class Deployer(abc.ABC):
    """Starts deployments."""

    scheme: str

    @abc.abstractmethod
    def deploy(self, model: FlowModel, plan: DeployPlan, options: Mapping[str, str]) -> Deployment:
        """Start every process of the plan and return when all are ready.

        Raises:
            StartupError: if one does not come up; everything started is ended first.
        """

    def warm_up(self) -> None:
        """Begin with what takes long, beside whatever else is to be done before the first deployment."""

    def close(self) -> None:
        """Free what its deployments share, such as a template process. Idempotent."""
