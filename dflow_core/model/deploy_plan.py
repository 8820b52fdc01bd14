"""Where everything runs, as data: processes, instances, queues and the routes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """One bounded queue.

    Args:
        name: Unique name: `<endpoint>-><model>:<port>`, with `@<instance>` where each instance has its own.
        depth: Messages it holds.
        overflow: `block`, `drop_oldest`, `drop_newest`, `keep_latest` or `max_age`.
        max_age: Seconds after which a message is dropped, for `max_age`.
        notices: Queue that tells the reader which messages this one dropped, so that their transactions end; "" where
            nothing is dropped.
    """

    name: str
    depth: int
    overflow: str = "block"
    max_age: float = 0.0
    notices: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a producer sends a message for one consumer input: the only queue, or one of several by transaction.

    Several queues are used where every part of a transaction must meet in the same instance of a joining node:
    index = (trans_id - 1 + max(route_label, 1) - 1) mod number of queues (runtime-semantics.md section 12.2).
    """

    queues: tuple[str, ...]

    def pick(self, trans_id: int, route_label: int = 0) -> str:
        """Name of the queue for a message."""
        if len(self.queues) == 1:
            return self.queues[0]
        return self.queues[(trans_id - 1 + max(route_label, 1) - 1) % len(self.queues)]


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """One instance of a submodel.

    Args:
        model: Name of the submodel.
        index: Number among the instances of that model, from 0.
        count: How many instances it has.
        process: Name of the process it lives in.
        device: Device it is bound to, such as `cpu:0`.
        threads: Threads it may use.
        inputs: Queue name for each input port.
        outputs: Routes for each output port; several where the output fans out, none where nobody reads it.
        notices: For each queue named above that may drop messages, the queue that tells of them.
    """

    model: str
    index: int
    count: int
    process: str
    device: str
    threads: int
    inputs: tuple[str, ...]
    outputs: tuple[tuple[Route, ...], ...]
    notices: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One executor process.

    Args:
        name: Unique name, made of its node or its engine and device.
        engine: Engine of its instances.
        env: Interpreter to use; "" is this one.
        instances: What runs in it, each in a thread of its own.
    """

    name: str
    engine: str
    env: str
    instances: tuple[InstancePlan, ...]

    def outputs_that_stay(self, plan: InstancePlan) -> tuple[bool, ...]:
        """For each output of one of its instances, whether all that is sent there is read by one other in here.

        The reader must be the only instance of its model and have no other input, so that it takes messages in the
        order in which they were sent; the queue must not drop any.
        """
        return tuple(self._stays(plan, routes) for routes in plan.outputs)

    def _stays(self, plan: InstancePlan, routes: Sequence[Route]) -> bool:
        queues = [name for route in routes for name in route.queues]
        if len(queues) != 1 or queues[0] in plan.notices:
            return False
        return any(
            reader is not plan and reader.inputs == (queues[0],) and reader.count == 1 for reader in self.instances
        )


@dataclass(frozen=True, slots=True)
class DeployPlan:
    """Everything a deployer needs to know besides the models.

    Args:
        graph: Name of the graph.
        transport: Scheme of the local transport.
        processes: Executor processes.
        queues: Queues.
        feeds: For each root input, the routes a fed message takes; none where no node reads it.
        fetches: For each root output, the queue to fetch from.
        cpus: CPUs that cgroup and affinity allow.
        notes: Decisions worth telling, one sentence each, with the reason.
    """

    graph: str
    transport: str
    processes: tuple[ProcessPlan, ...]
    queues: tuple[QueuePlan, ...]
    feeds: tuple[tuple[Route, ...], ...]
    fetches: tuple[str, ...]
    cpus: int
    notes: tuple[str, ...] = ()

    @property
    def instances(self) -> tuple[InstancePlan, ...]:
        """Every instance of every process."""
        return tuple(instance for process in self.processes for instance in process.instances)

    @property
    def notices(self) -> dict[str, str]:
        """For each queue that may drop messages, the queue that tells of them."""
        return {queue.name: queue.notices for queue in self.queues if queue.notices}
