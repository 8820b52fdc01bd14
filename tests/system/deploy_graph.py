"""Deployments for tests without compiler and client: chains of `deploy_nodes`, and what is left of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import numpy as np

from dflow_core.deploy import LocalDeployer, LocalDeployment
from dflow_core.message import ErrorInfo, FlowMsg, MsgInfo, decode, encode, root_token
from dflow_core.model import (
    DeployPlan,
    FlowModel,
    InstancePlan,
    ModelEndpoints,
    ModelRelation,
    ProcessPlan,
    QueuePlan,
    Route,
    UdfModel,
)
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec

BUILTINS = ("dflow_core.builtin", "tests.system.deploy_nodes")
QUIET = {"output": "none"}


def deployer(**arguments: object) -> LocalDeployer:
    """A deployer whose executors know the test engine."""
    return LocalDeployer(builtins=BUILTINS, **arguments)  # type: ignore[arg-type]


def node(name: str, package: str, inputs: int = 1, outputs: int = 1, **options: object) -> UdfModel:
    """A model of the test engine."""
    spec = TensorSpec(DataType.UNDEFINED)
    function = FuncSpec("", tuple(range(inputs)), tuple(range(outputs)))
    return UdfModel(
        name=name, engine="TEST", inputs=(spec,) * inputs, outputs=(spec,) * outputs, functions=(function,),
        package=package.encode(), options=NodeOptions(**options),  # type: ignore[arg-type]
    )


def chain(*packages: str, instances: int = 1, depth: int = 8, **options: object) -> tuple[FlowModel, DeployPlan]:
    """Nodes `n0`, `n1`, ... one behind the other, each with some instances that share its input queue."""
    models = {f"n{i}": node(f"n{i}", package, instances=instances, **options) for i, package in enumerate(packages)}
    queues = [QueuePlan(f"q{i}", depth) for i in range(len(packages) + 1)]
    processes = [
        ProcessPlan(
            f"{name}#{k}", "TEST", model.options.env,
            (InstancePlan(name, k, instances, f"{name}#{k}", "cpu:0", 1, (f"q{i}",), ((Route((f"q{i + 1}",)),),)),),
        )
        for i, (name, model) in enumerate(models.items())
        for k in range(instances)
    ]
    return _deployable(models, processes, queues, ["q0"], [queues[-1].name])


def join(package: str, **options: object) -> tuple[FlowModel, DeployPlan]:
    """One node `n0` that joins two inputs, queues `a` and `b`, and one output, queue `out`."""
    models = {"n0": node("n0", package, inputs=2, **options)}
    instance = InstancePlan("n0", 0, 1, "n0#0", "cpu:0", 1, ("a", "b"), ((Route(("out",)),),))
    queues = [QueuePlan(name, 8) for name in ("a", "b", "out")]
    return _deployable(models, [ProcessPlan("n0#0", "TEST", "", (instance,))], queues, ["a", "b"], ["out"])


def _deployable(
    models: Mapping[str, UdfModel], processes: list[ProcessPlan], queues: list[QueuePlan], feeds: list[str],
    fetches: list[str],
) -> tuple[FlowModel, DeployPlan]:
    relation = ModelRelation((), {}, ModelEndpoints("g", (), ()))
    routes = tuple((Route((name,)),) for name in feeds)
    plan = DeployPlan("g", "", tuple(processes), tuple(queues), routes, tuple(fetches), 2)
    return FlowModel("g", models, relation), plan


class Running:
    """A deployment with the caller's side in short; closes it at the end of a `with`."""

    def __init__(self, deployment: LocalDeployment) -> None:
        self.deployment = deployment
        self.group = deployment.group

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.deployment.close(2.0)

    def feed(self, trans_id: int, value: object = None, queue: str = "q0", timeout: float = 10.0) -> None:
        """Put a message in; the value is the transaction id unless given."""
        info = MsgInfo(trans_id=trans_id, token=root_token(trans_id))
        given = np.float64([trans_id]) if value is None else value
        block = encode(given, info, lambda size: self.group.alloc(size, timeout)).block
        assert block is not None
        self.group.queue(queue).put(block, timeout)

    def fetch(self, timeout: float = 20.0, queue: str = "") -> tuple[int, object]:
        """Transaction id with its value, or its ErrorInfo."""
        block = self.group.queue(queue or self.deployment.plan.fetches[0]).get(timeout)
        assert block is not None, f"nothing came; {self.deployment.status()} {self.deployment.stacks()}"
        message = FlowMsg.from_block(block)
        value = decode(message)
        found = message.aux.error or (np.array(value) if isinstance(value, np.ndarray) else value)
        return message.info.trans_id, found

    def call(self, trans_id: int) -> object:
        """Feed and fetch one."""
        self.feed(trans_id)
        found, value = self.fetch()
        assert found == trans_id
        return value

    def error(self, trans_id: int) -> ErrorInfo:
        """Feed one, and the error that comes of it."""
        error = self.call(trans_id)
        assert isinstance(error, ErrorInfo)
        return error

    @property
    def pids(self) -> list[int]:
        """Process ids of the executors."""
        return [status.pid for status in self.deployment.status()]


def start(deployer: LocalDeployer, graph: tuple[FlowModel, DeployPlan], **options: str) -> Running:
    """Deploy a graph; what nodes print goes nowhere unless said otherwise."""
    return Running(deployer.deploy(*graph, {**QUIET, **options}))


def _stat(pid: int | str) -> list[str]:
    """State, parent and so on of a process."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def descendants(pid: int) -> set[int]:
    """Processes below one; zombies too."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = _stat(entry)
            except OSError:
                continue
            parents[int(entry)] = int(fields[1])
    found: set[int] = set()
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh and child not in found}
        found |= fresh
    return found


def descriptors() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))


def memory_files() -> list[str]:
    """Memory files this process holds open or has mapped."""
    open_files = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    links = [os.readlink(path) for path in open_files if os.path.islink(path)]
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return [text for text in (*links, *maps) if "memfd:" in text]
