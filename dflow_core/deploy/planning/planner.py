"""FlowModel and resources to DeployPlan: processes, threads, queues, routes. A pure function.

- A queue belongs to one input of one model. Instances that take work as they are free share it; with any other way to
  share it out (`dispatch`), and where every part of a transaction must meet in one instance (a function that joins or
  gathers), each instance has its own.
- An engine that shares processes has one process for each device, where all its models on it live, an instance each;
  other instances have a process of their own.
- What a function calls has as many instances as the function, each with queues of its own: the i-th serves the i-th.
- CPUs are shared out over the instances of models, on each machine for itself; a Python function works on one CPU at a
  time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dflow_core.deploy.planning.called_instances import call_notes, with_called_instances
from dflow_core.deploy.planning.parts import crossings
from dflow_core.deploy.planning.queue_plans import Queues, gathers, joins, meets_mixed_batches
from dflow_core.deploy.planning.resources import Resources
from dflow_core.deploy.planning.threads import budget_notes, share_threads
from dflow_core.errors import DeployError, Fault, GraphError, OptionError, PlacementError
from dflow_core.model import (
    Crossing,
    DeployPlan,
    FlowModel,
    InstancePlace,
    InstancePlan,
    InvokedEndpoints,
    Machine,
    NodePlacement,
    PneModel,
    ProcessPlan,
    ThreadShare,
    called_by,
)
from dflow_core.options import Options
from dflow_core.types import AlignLimits

_HOW = {
    "free": "one queue, who is free takes work",
    "transaction": "a queue each, picked by transaction",
    "least_loaded": "a queue each, the one with the fewest messages is picked",
    "sticky": "a queue each, picked by route label",
    "first": "all goes to the first one",
}


def plan_deployment(
    model: FlowModel, resources: Resources, shares_process: Mapping[str, bool], options: Options, transport: str = "",
    placements: Sequence[NodePlacement] | None = None, machines: Sequence[Machine] = (),
) -> DeployPlan:
    """Where everything of a compiled graph runs.

    Args:
        model: The graph.
        resources: What may be used.
        shares_process: For each engine id, whether instances of different models share a process.
        options: Options in force; `queue_depth` is used.
        transport: Scheme of the local transport.
        placements: Where the instances of each model run; on the CPUs, as many as it asks for, if not given.
        machines: The machines beside this one that something is placed on.

    Raises:
        GraphError: an input of the graph is directly one of its outputs.
        OptionError: a shared process is asked for by nodes that cannot share one.
        PlacementError: something is on another machine than the function that calls it.
        DeployError: a model is of an engine that is not in `shares_process`.
    """
    _check(model, shares_process)
    model = with_called_instances(model)
    notes = list(resources.notes)
    wanted = _unplaced(model, shares_process) if placements is None else placements
    callers = called_by(model.relation)
    placed = {one.node: _settled(model, one, notes, one.node in callers) for one in wanted}
    notes += call_notes(model, placed)
    _check_calls(placed, callers)
    notes += _limit_notes(model, AlignLimits(options.align_max_cache, options.align_timeout, options.align_drop))
    queues = Queues(model, options.queue_depth, placed)
    is_model = {name: shares_process[sub.engine] for name, sub in model.submodels.items()}
    budget: list[ThreadShare] = []
    for name, cpus in [("", resources.cpus), *((one.name, one.cpus or resources.cpus) for one in machines)]:
        counts = {node: sum(place.machine == name for place in one.places) for node, one in placed.items()}
        share = share_threads(model, cpus, shares_process, counts, name)
        notes += [f"{name}: {note}" if name else note for note in budget_notes(share, cpus, is_model)]
        budget += share
    threads = {(one.node, one.machine): max(1, one.threads // one.calls) for one in budget}
    processes = _processes(model, shares_process, queues, threads, placed)
    feeds = tuple(queues.routes(endpoint) for endpoint in model.relation.root.inputs)
    for name, routes in zip(model.relation.input_names, feeds):
        if not routes:
            notes.append(f"input {name!r} is read by no node; what is fed there is ignored")
    crossing = crossings(processes, feeds, queues.fetches)
    notes += _crossing_notes(crossing, machines)
    return DeployPlan(
        model.name, transport, processes, tuple(queues.all.values()), feeds, tuple(queues.fetches),
        resources.cpus, tuple(notes), tuple(placed.values()), tuple(budget), tuple(machines), crossing,
    )


def _unplaced(model: FlowModel, shares_process: Mapping[str, bool]) -> list[NodePlacement]:
    """Every node on the CPUs, as many instances as it asks for."""
    return [
        NodePlacement(
            name,
            tuple(InstancePlace(f"cpu:{i if shares_process[sub.engine] else 0}") for i in range(sub.options.instances)),
            (sub.options.dispatch or "free") if sub.options.instances > 1 else "",
        )
        for name, sub in model.submodels.items()
    ]


def _settled(model: FlowModel, placement: NodePlacement, notes: list[str], is_called: bool) -> NodePlacement:
    """A placement with the way its work is shared out that suits the node; says which and why."""
    sub, count = model.submodels[placement.node], len(placement.places)
    if count < 2 or not sub.inputs:
        return replace(placement, dispatch="") if not sub.inputs else placement
    if is_called:
        return replace(placement, dispatch="caller")
    dispatch, why = placement.dispatch, ""
    if dispatch == "free" and len({place.machine for place in placement.places}) > 1:
        dispatch, why = "least_loaded", ", because they are on several machines, which have no queue in common"
    if gathers(sub) and dispatch != "transaction":
        dispatch, why = "transaction", ", because it gathers all parts of one"
    elif joins(sub) and meets_mixed_batches(model, sub.name):
        dispatch, why = "first", ", because it joins streams that were put into batches apart from each other"
    elif joins(sub) and dispatch in ("free", "least_loaded"):
        dispatch, why = "transaction", ", because what it joins must meet in one instance"
    notes.append(f"{sub.name}: {count} instances, {_HOW[dispatch]}{why}")
    return replace(placement, dispatch=dispatch)


def _limit_notes(model: FlowModel, limits: AlignLimits) -> list[str]:
    """What nodes with limits of alignment of their own wait for."""
    notes = []
    for name, sub in model.submodels.items():
        own = limits.with_own(sub.options)
        if own != limits:
            patience = f"{own.timeout:g} s" if own.timeout else "without a limit of time"
            given_up = "dropped" if own.drop else "given out"
            text = f"in {own.max_cache} sets at most, {patience}; what is given up is {given_up}" if own else "for ever"
            notes.append(f"{name}: parts of its inputs wait {text} (its own limits)")
    return notes


def _check_calls(placed: Mapping[str, NodePlacement], callers: Mapping[str, InvokedEndpoints]) -> None:
    """What a function calls must be on its machine."""
    faults = [
        Fault(
            "machine", f"node {name!r}", "", f"it is on {_place(inner)}, and {one.model!r}, which calls it, on "
            f"{_place(outer)}", "put both on one machine",
        )
        for name, one in callers.items()
        for inner, outer in zip(placed[name].places, placed[one.model].places)
        if inner.machine != outer.machine
    ]
    if faults:
        raise PlacementError(faults)


def _place(place: InstancePlace) -> str:
    return place.machine or "the application's machine"


def _crossing_notes(crossing: Sequence[Crossing], machines: Sequence[Machine]) -> list[str]:
    """What goes over a link, a sentence for each machine and direction."""
    notes = []
    for one in machines:
        for text, found in (
            (f"to {one.name} ({one.address})", [c.queue for c in crossing if c.target == one.name]),
            (f"from {one.name} ({one.address})", [c.queue for c in crossing if c.source == one.name]),
        ):
            if found:
                notes.append(f"messages go {text} in {', '.join(found)}")
    return notes


def _processes(
    model: FlowModel, shares_process: Mapping[str, bool], queues: Queues, threads: Mapping[tuple[str, str], int],
    placed: Mapping[str, NodePlacement],
) -> tuple[ProcessPlan, ...]:
    members: dict[str, list[InstancePlan]] = {}
    homes: dict[str, tuple[str, str, str]] = {}
    founders: dict[str, str] = {}
    for name, sub in model.submodels.items():
        sides = model.relation.submodels[name]
        shared, places = shares_process[sub.engine], placed[name].places
        for i, place in enumerate(places):
            again = sum((other.device, other.machine) == (place.device, place.machine) for other in places[:i])
            process = _process_of(sub, i, len(places), f"{place.device}#{again}" if again else place.device, shared)
            process = f"{place.machine}/{process}" if place.machine else process
            home = (sub.engine, sub.options.env, place.machine)
            founder = founders.setdefault(process, name)
            if homes.setdefault(process, home) != home:
                raise OptionError(
                    f"it cannot share process {process!r} with {founder!r}, which has another engine or environment",
                    node=name, hint="give the process another name",
                )
            inputs = tuple(queues.input(name, port, i) for port in range(len(sides.inputs)))
            outputs = tuple(queues.routes(endpoint, name, i) for endpoint in sides.outputs)
            invoked = queues.called(name, i)
            targets = [queue for routes in outputs for route in routes for queue in route.queues]
            targets += [queue for one in invoked for queue in (*one.feeds, *one.outputs)]
            members.setdefault(process, []).append(
                InstancePlan(
                    name, i, len(places), process, place.device, threads[name, place.machine], inputs, outputs,
                    queues.notices([*inputs, *targets]), invoked,
                )
            )
    return tuple(
        ProcessPlan(process, engine, env, tuple(members[process]), machine)
        for process, (engine, env, machine) in homes.items()
    )


def _process_of(sub: PneModel, index: int, count: int, device: str, shared: bool) -> str:
    if sub.options.process:
        return sub.options.process if index == 0 else f"{sub.options.process}#{index}"
    if shared:
        place = f"{sub.engine}@{device}"
        return f"{place}[{sub.options.env}]" if sub.options.env else place
    return sub.name if count == 1 else f"{sub.name}#{index}"


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
