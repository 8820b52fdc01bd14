"""FlowModel and resources to DeployPlan: processes, threads, queues, routes. A pure function.

- A queue belongs to one input of one model. Instances of a model share it, so that work is taken by who is free; where
  every part of a transaction must meet in one instance (a function that joins or gathers), each instance has its own.
- An engine that shares processes has one process for instance i of all its models; other instances have their own.
- CPUs are shared out over the instances of models; a Python function works on one CPU at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from dflow_core.deploy.resources import Resources
from dflow_core.deploy.threads import share_threads
from dflow_core.errors import DeployError, Fault, GraphError, OptionError
from dflow_core.model import (
    DeployPlan,
    FlowModel,
    InstancePlan,
    PneModel,
    ProcessPlan,
    QueuePlan,
    Route,
)
from dflow_core.options import Options

_MAX_NAME = 255
_NOTICES = 64


def plan_deployment(
    model: FlowModel, resources: Resources, shares_process: Mapping[str, bool], options: Options, transport: str = ""
) -> DeployPlan:
    """Where everything of a compiled graph runs on this machine.

    Args:
        model: The graph.
        resources: What may be used.
        shares_process: For each engine id, whether instances of different models share a process.
        options: Options in force; `queue_depth` is used.
        transport: Scheme of the local transport.

    Raises:
        GraphError: an input of the graph is directly one of its outputs.
        OptionError: a shared process is asked for by nodes that cannot share one.
        DeployError: a model is of an engine that is not in `shares_process`.
    """
    _check(model, shares_process)
    notes = list(resources.notes)
    queues = _Queues(model, options.queue_depth)
    threads = share_threads(model, resources.cpus, shares_process, notes)
    processes = _processes(model, shares_process, queues, threads)
    for name, sub in model.submodels.items():
        if sub.options.instances > 1 and sub.inputs:
            how = "a queue each, picked by transaction" if joins(sub) else "one queue, who is free takes work"
            notes.append(f"{name}: {sub.options.instances} instances, {how}")
    feeds = tuple(queues.routes(endpoint) for endpoint in model.relation.root.inputs)
    for name, routes in zip(model.relation.input_names, feeds):
        if not routes:
            notes.append(f"input {name!r} is read by no node; what is fed there is ignored")
    return DeployPlan(
        model.name, transport, processes, tuple(queues.all.values()), feeds, tuple(queues.fetches),
        resources.cpus, tuple(notes),
    )


def joins(model: PneModel) -> bool:
    """Whether all parts of a transaction have to meet in one instance of the model."""
    return any(len(func.inputs) > 1 or func.gather for func in model.functions) or (
        not model.functions and len(model.inputs) > 1
    )


def queue_name(text: str) -> str:
    """A queue name of at most 255 bytes: long ones are cut and told apart by a hash."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= _MAX_NAME:
        return text
    digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
    return raw[: _MAX_NAME - len(digest) - 1].decode("utf-8", "ignore") + "~" + digest


class _Queues:
    """Queues and routes of a graph.

    Args:
        model: The graph.
        depth: Messages a queue holds where its endpoint does not say.
    """

    def __init__(self, model: FlowModel, depth: int) -> None:
        self._model = model
        self._depth = depth
        self._endpoints = {endpoint.name: endpoint for endpoint in model.relation.endpoints}
        self._by_input: dict[tuple[str, int], Route] = {}
        self._readers: dict[str, list[Route]] = {}
        self.all: dict[str, QueuePlan] = {}
        for name, sides in model.relation.submodels.items():
            sub = model.submodels[name]
            count = sub.options.instances if joins(sub) else 1
            for port, endpoint in enumerate(sides.inputs):
                base = f"{endpoint}->{name}:{port}"
                names = [base] if count == 1 else [f"{base}@{i}" for i in range(count)]
                route = Route(tuple(self._made(text, endpoint) for text in names))
                self._by_input[name, port] = route
                self._readers.setdefault(endpoint, []).append(route)
        self.fetches: list[str] = []
        for i, endpoint in enumerate(model.relation.root.outputs):
            self.fetches.append(self._made(f"{endpoint}->fetch:{i}", endpoint))
            self._readers.setdefault(endpoint, []).append(Route((self.fetches[i],)))

    def input(self, model: str, port: int, instance: int) -> str:
        """Queue an instance reads an input from."""
        queues = self._by_input[model, port].queues
        return queues[instance if len(queues) > 1 else 0]

    def routes(self, endpoint: str) -> tuple[Route, ...]:
        """Where a message of an endpoint goes: to each input that reads it, then to each fetch."""
        return tuple(self._readers.get(endpoint, ()))

    def _made(self, text: str, endpoint: str) -> str:
        name = queue_name(text)
        while name in self.all:  # names of nodes may hold what joins the parts here
            text += "'"
            name = queue_name(text)
        end = self._endpoints[endpoint]
        depth = 1 if end.overflow == "keep_latest" else end.depth or self._depth
        notices = self._notices(name) if end.overflow != "block" else ""
        self.all[name] = QueuePlan(name, depth, end.overflow, end.max_age, notices)
        return name

    def _notices(self, queue: str) -> str:
        """A queue beside one that may drop messages, for the news of those."""
        self.all[queue] = QueuePlan(queue, 1)  # so that the name is taken
        name = queue_name(f"dropped: {queue}")
        while name in self.all:
            name = queue_name(name + "'")
        self.all[name] = QueuePlan(name, _NOTICES)
        return name

    def notices(self, queues: Iterable[str]) -> dict[str, str]:
        """For those of some queues that may drop messages, the queues that tell of them."""
        return {name: notices for name in queues if (notices := self.all[name].notices)}


def _processes(
    model: FlowModel, shares_process: Mapping[str, bool], queues: _Queues, threads: Mapping[str, int]
) -> tuple[ProcessPlan, ...]:
    members: dict[str, list[InstancePlan]] = {}
    homes: dict[str, tuple[str, str]] = {}
    founders: dict[str, str] = {}
    for name, sub in model.submodels.items():
        sides = model.relation.submodels[name]
        shared = shares_process[sub.engine]
        for i in range(sub.options.instances):
            process = _process_of(sub, i, shared)
            home = (sub.engine, sub.options.env)
            founder = founders.setdefault(process, name)
            if homes.setdefault(process, home) != home:
                raise OptionError(
                    f"it cannot share process {process!r} with {founder!r}, which has another engine or environment",
                    node=name, hint="give the process another name",
                )
            inputs = tuple(queues.input(name, port, i) for port in range(len(sides.inputs)))
            outputs = tuple(queues.routes(endpoint) for endpoint in sides.outputs)
            targets = [queue for routes in outputs for route in routes for queue in route.queues]
            members.setdefault(process, []).append(
                InstancePlan(
                    name, i, sub.options.instances, process, f"cpu:{i if shared else 0}", threads[name], inputs,
                    outputs, queues.notices([*inputs, *targets]),
                )
            )
    return tuple(ProcessPlan(process, *homes[process], tuple(inside)) for process, inside in members.items())


def _process_of(sub: PneModel, index: int, shared: bool) -> str:
    if sub.options.process:
        return sub.options.process if index == 0 else f"{sub.options.process}#{index}"
    if shared:
        place = f"{sub.engine}@cpu:{index}"
        return f"{place}[{sub.options.env}]" if sub.options.env else place
    return sub.name if sub.options.instances == 1 else f"{sub.name}#{index}"


def _check(model: FlowModel, shares_process: Mapping[str, bool]) -> None:
    root = model.relation.root
    faults = [
        Fault("passthrough", model.name, f"output {i}", f"it is the input {endpoint!r} itself", "put a node in between")
        for i, endpoint in enumerate(root.outputs)
        if endpoint in root.inputs
    ]
    if faults:
        raise GraphError(model.name, faults)
    for name, sub in model.submodels.items():
        if sub.engine not in shares_process:
            text = f"engine {sub.engine!r} is not installed here"
            raise DeployError(text, node=name, hint="`dflow plugins` lists what is")
