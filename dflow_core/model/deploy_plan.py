"""Where everything runs, as data: processes, instances, queues and the routes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.model.machines import Crossing, Machine
from dflow_core.model.placement import NodePlacement, ThreadShare


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
    """Where a producer sends a message for one consumer input: the only queue, or one of several.

    `by` says which one:

    - `label`: by transaction and route label, so that all that belongs together meets in one instance:
      index = (trans_id - 1 + max(route_label, 1) - 1) mod number of queues (runtime-semantics.md section 12.2).
    - `transaction`: by transaction alone, for functions that gather all parts of one.
    - `sticky`: by route label alone; what has none goes by transaction.
    - `load`: the queue with the fewest messages; the one that was used longest ago of several.

    Args:
        queues: Names of the queues, one for each instance of the consumer.
        by: Rule.
        spares: How many of the last queues are used only where all others are closed; for `load`.
    """

    queues: tuple[str, ...]
    by: str = "label"
    spares: int = 0

    def pick(self, trans_id: int, route_label: int = 0) -> str:
        """Name of the queue for a message; for `load` the one it would be if nobody had anything to do."""
        count = len(self.queues) - self.spares
        return self.queues[index_of(self.by, trans_id, route_label, count)] if count > 1 else self.queues[0]


def index_of(by: str, trans_id: int, route_label: int, count: int) -> int:
    """Which of `count` instances a message goes to; see `Route`."""
    if by == "label" and route_label:
        return (trans_id + route_label - 2) % count
    if by == "sticky" and route_label:
        return (route_label - 1) % count
    return (trans_id - 1) % count


@dataclass(frozen=True, slots=True)
class InvokedPlan:
    """A graph that an instance's functions call; its models have an instance for this one alone.

    Args:
        key: What the functions call it by.
        inputs: Routes of each of its inputs.
        outputs: Queue to fetch each of its outputs from.
    """

    key: str
    inputs: tuple[tuple[Route, ...], ...]
    outputs: tuple[str, ...]

    @property
    def feeds(self) -> tuple[str, ...]:
        """The queues the instance puts something into."""
        return tuple(queue for routes in self.inputs for route in routes for queue in route.queues)


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
        invoked: The graphs its functions call.
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
    invoked: tuple[InvokedPlan, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Every queue it takes something from."""
        return (*self.inputs, *(queue for one in self.invoked for queue in one.outputs))


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One executor process.

    Args:
        name: Unique name, made of its node or its engine and device.
        engine: Engine of its instances.
        env: Interpreter to use; "" is this one.
        instances: What runs in it, each in a thread of its own.
        machine: Name of the machine it runs on; "" for that of the application.
    """

    name: str
    engine: str
    env: str
    instances: tuple[InstancePlan, ...]
    machine: str = ""

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
        placements: For each model, where its instances run and why.
        budget: Threads of each model, and why.
        machines: The machines it runs on beside that of the application.
        crossings: Queues between machines, in an order that both ends of each share.
        machine: Name of the machine whose part of a graph this is; "" for that of the application, and for a whole.
    """

    graph: str
    transport: str
    processes: tuple[ProcessPlan, ...]
    queues: tuple[QueuePlan, ...]
    feeds: tuple[tuple[Route, ...], ...]
    fetches: tuple[str, ...]
    cpus: int
    notes: tuple[str, ...] = ()
    placements: tuple[NodePlacement, ...] = ()
    budget: tuple[ThreadShare, ...] = ()
    machines: tuple[Machine, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    machine: str = ""

    @property
    def instances(self) -> tuple[InstancePlan, ...]:
        """Every instance of every process."""
        return tuple(instance for process in self.processes for instance in process.instances)

    @property
    def notices(self) -> dict[str, str]:
        """For each queue that may drop messages, the queue that tells of them."""
        return {queue.name: queue.notices for queue in self.queues if queue.notices}
