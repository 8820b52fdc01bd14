"""A graph over several machines, as the machine of the application sees it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from dflow_core.deploy.local import LocalDeployer
from dflow_core.deploy.local_deployment import LocalDeployment
from dflow_core.deploy.machines.remote_part import RemotePart
from dflow_core.deploy.planning.parts import split_plan
from dflow_core.deploy.settings import DeploySettings
from dflow_core.errors import DflowError, UsageError
from dflow_core.model import (
    DeployPlan,
    ExceptionNote,
    FlowModel,
    GraphModel,
    Machine,
    PneModel,
    SerializedModel,
    UdfModel,
    om_chunks,
)
from dflow_core.spi import (
    Deployment,
    Exchange,
    GatewayEvents,
    GatewayPlan,
    InstanceStatus,
    LinkConfig,
    LinkTransport,
    MakeGateway,
    QueueStats,
)

_CONNECT_LIMIT = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Links:
    """How machines are joined.

    Args:
        transport: Makes links.
        config: This end of them.
        make_gateway: Makes what moves messages over them.
    """

    transport: LinkTransport
    config: LinkConfig
    make_gateway: MakeGateway


class JointDeployment(Deployment):
    """A graph that runs on this machine and on others. Thread-safe.

    Args:
        local: What runs here.
        plan: What runs where, everywhere.
        parts: What runs elsewhere.
    """

    def __init__(self, local: LocalDeployment, plan: DeployPlan, parts: Sequence[RemotePart]) -> None:
        self.group, self.plan = local.group, plan
        self._local, self._parts = local, tuple(parts)
        self._raised: Callable[[ExceptionNote], None] = _nobody
        local.watch_exceptions(self._spread)

    def failure(self) -> DflowError | None:
        return self._local.failure()

    def status(self) -> Sequence[InstanceStatus]:
        found = _side_by_side([self._local.status, *(part.status for part in self._parts)])
        places = {(one.model, one.index): place for place, one in enumerate(self.plan.instances)}
        return sorted(itertools.chain(*found), key=lambda one: places[one.node, one.instance])

    def stacks(self) -> Mapping[str, str]:
        found = _side_by_side([self._local.stacks, *(part.stacks for part in self._parts)])
        return dict(itertools.chain(*(stacks.items() for stacks in found)))

    def queues_elsewhere(self) -> Sequence[QueueStats]:
        return tuple(itertools.chain(*_side_by_side([part.queues for part in self._parts])))

    def tell_cancelled(self) -> None:
        self._local.tell_cancelled()
        for part in self._parts:
            part.tell_cancelled()

    def watch_exceptions(self, call: Callable[[ExceptionNote], None]) -> None:
        self._raised = call

    def suspend(self, timeout: float) -> bool:
        calls = [self._local.suspend, *(part.suspend for part in self._parts)]
        return all(_side_by_side([partial(call, timeout) for call in calls]))

    def resume(self) -> None:
        self._local.resume()
        for part in self._parts:
            part.resume()

    def discard(self, timeout: float) -> bool | None:
        calls = [self._local.discard, *(part.discard for part in self._parts)]
        found = _side_by_side([partial(call, timeout) for call in calls])
        return None if None in found else all(found)

    def prepare(self, models: Mapping[str, PneModel]) -> Exchange:
        for instance in (i for process in self.plan.processes if process.machine for i in process.instances):
            if instance.model in models:
                raise UsageError(
                    "it runs on another machine, where nodes cannot be exchanged yet", node=instance.model,
                    hint="close the graph and start the new one",
                )
        return self._local.prepare(models)

    def introduce(self, answer: Callable[[str], Mapping[str, object]]) -> None:
        self._local.introduce(answer)

    def close(self, timeout: float | None = None) -> None:
        self._local.close(timeout)

    def _spread(self, note: ExceptionNote) -> None:
        """An exception that a function here or elsewhere has raised: whoever knows of it does nothing."""
        self._raised(note)
        for part in self._parts:
            part.tell_exception(note)


def deploy_jointly(
    local: LocalDeployer, links: Links, model: FlowModel, plan: DeployPlan, options: Mapping[str, str]
) -> JointDeployment:
    """Start every part of a plan, side by side; returns when all are ready.

    Args:
        local: Starts the part of this machine.
        links: How machines are joined.
        model, plan, options: As for `Deployer.deploy`.

    Raises:
        PeerGoneError: a daemon does not answer.
        StartupError: something does not come up; everything started is ended first.
    """
    settings = DeploySettings.from_options(options)
    parts, ours = split_plan(plan), _Events()
    with contextlib.ExitStack() as undo:
        remotes = _connected(plan.machines, links, ours, undo)

        def take(deployment: LocalDeployment) -> None:
            undo.callback(deployment.close, 0.0)

        starts: list[Callable[[], LocalDeployment | None]] = [
            lambda: local.deploy(model, parts.head, options, made=take)
        ]
        limit = settings.start_timeout + _CONNECT_LIMIT if settings.start_timeout else float(1 << 20)
        for part in remotes:
            own = parts.others[part.machine.name]
            starts.append(partial(part.deploy, own, options, _model_of(model, own), limit))
        here = _all_or_none(starts, undo)[0]
        assert here is not None
        ours.deployment = here
        for part in remotes:
            part.join(links.make_gateway(
                here.group, part.link, gateway_plan(parts.head, part.machine.name),
                gateway_events(here, part.machine.name),
            ))
        # What is fed no more runs dry front to back, over all machines; then the parts elsewhere are closed.
        here.users.append(lambda: _side_by_side([partial(part.close, settings.stop_timeout) for part in remotes]))
        if ours.failure is not None:
            raise ours.failure
        undo.pop_all()
    return JointDeployment(here, plan, remotes)


def gateway_plan(part: DeployPlan, peer: str) -> GatewayPlan:
    """What the gateway between a part and another machine moves."""
    crossings = tuple(one for one in part.crossings if peer in (one.source, one.target))
    names = {one.queue for one in crossings}
    return GatewayPlan(part.machine, peer, crossings, tuple(queue for queue in part.queues if queue.name in names))


def gateway_events(deployment: LocalDeployment, peer: str) -> GatewayEvents:
    """What a gateway to another machine tells the deployment of this one."""
    return GatewayEvents(
        lambda queue: deployment.done_elsewhere(queue, peer), deployment.tell_cancelled, deployment.fail
    )


class _Events:
    """What parts elsewhere say, for the deployment here once there is one."""

    def __init__(self) -> None:
        self.deployment: LocalDeployment | None = None
        self.failure: DflowError | None = None

    def raised(self, note: ExceptionNote) -> None:
        if self.deployment is not None:
            self.deployment.tell_exception(note)

    def broken(self, error: DflowError) -> None:
        self.failure = self.failure or error
        if self.deployment is not None:
            self.deployment.fail(error)


def _connected(
    machines: Sequence[Machine], links: Links, events: _Events, undo: contextlib.ExitStack
) -> list[RemotePart]:
    """Connect to all daemons; all or none."""

    def connect(machine: Machine) -> RemotePart:
        limit = min(_CONNECT_LIMIT, links.config.lease)
        link = links.transport.connect(machine.address, links.config, limit)
        part = RemotePart(machine, link, events.raised, events.broken)
        undo.callback(part.close, 0.0)
        return part

    return _all_or_none([partial(connect, machine) for machine in machines], undo)


def _model_of(model: FlowModel, part: DeployPlan) -> bytes:
    """The graph as an OM file; models that the part does not run have no content."""
    wanted = {one.model for one in part.instances}
    submodels = {name: sub if name in wanted else _empty(sub) for name, sub in model.submodels.items()}
    return b"".join(om_chunks(replace(model, submodels=submodels, graph=b"")))


def _empty(sub: PneModel) -> PneModel:
    if isinstance(sub, GraphModel):
        return replace(sub, source=b"", blob=b"", side_files={})
    if isinstance(sub, UdfModel):
        return replace(sub, package=b"")
    return replace(sub, data=b"") if isinstance(sub, SerializedModel) else sub


def _all_or_none(calls: Sequence[Callable[[], T]], undo: contextlib.ExitStack) -> list[T]:
    """What calls give, made side by side; as soon as one raises all are undone, and that is raised."""
    with ThreadPoolExecutor(len(calls), "dflow-machines") as pool:
        futures: list[Future[T]] = [pool.submit(call) for call in calls]
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        failed = next((error for one in futures if one in done and (error := one.exception())), None)
        if failed is not None:
            undo.close()
    if failed is not None:
        raise failed
    return [one.result() for one in futures]


def _side_by_side(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What calls give, made side by side; the first exception of one is raised."""
    with ThreadPoolExecutor(len(calls), "dflow-machines") as pool:
        return list(pool.map(lambda call: call(), calls))


def _nobody(note: ExceptionNote) -> None:
    """No application has asked to hear of exceptions yet."""
