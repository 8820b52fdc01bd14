"""A graph over several machines: which queues cross between them, and the part of the plan that is each machine's.

A queue is where its reader is. Where its writers are too it has one of the same name, from which a gateway takes what
they put in. Everything crosses at the application's machine: between two others a queue has two crossings, and lies on
the application's machine in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dflow_core.model import Crossing, DeployPlan, InstancePlan, ProcessPlan, Route


@dataclass(frozen=True, slots=True)
class Parts:
    """A plan by machines.

    Args:
        head: What the machine of the application does.
        others: What each other machine does, by its name.
    """

    head: DeployPlan
    others: Mapping[str, DeployPlan]


def crossings(
    processes: Sequence[ProcessPlan], feeds: Sequence[Sequence[Route]], fetches: Sequence[str]
) -> tuple[Crossing, ...]:
    """The queues whose messages go from one machine to another.

    Args:
        processes: All processes of a graph.
        feeds: The routes of each of its inputs.
        fetches: The queue of each of its outputs.
    """
    instances = [(process.machine, one) for process in processes for one in process.instances]
    readers = {queue: machine for machine, one in instances for queue in one.reads} | dict.fromkeys(fetches, "")
    writers = [(queue, "") for queue in _queues(feeds)]
    writers += [(queue, machine) for machine, one in instances for queue in _targets(one)]
    found = [
        Crossing(queue, source, target)
        for queue, machine in dict.fromkeys(writers)
        for source, target in _way(machine, readers[queue])
    ]
    return tuple(dict.fromkeys(found))


def split_plan(plan: DeployPlan) -> Parts:
    """The part of each machine, with the processes, queues and crossings that are its own.

    Only the application's part has feeds and fetches.
    """
    own = replace(plan, machines=(), feeds=(), fetches=())
    others = {one.name: _part(own, one.name, one.cpus or plan.cpus) for one in plan.machines}
    return Parts(replace(_part(plan, "", plan.cpus), machines=plan.machines), others)


def _part(plan: DeployPlan, machine: str, cpus: int) -> DeployPlan:
    processes = tuple(process for process in plan.processes if process.machine == machine)
    crossing = tuple(one for one in plan.crossings if machine in (one.source, one.target))
    used = {*_queues(plan.feeds), *plan.fetches, *(one.queue for one in crossing)}
    for process in processes:
        for one in process.instances:
            used |= {*one.reads, *_targets(one)}
    used |= {queue.notices for queue in plan.queues if queue.name in used}
    queues = tuple(queue for queue in plan.queues if queue.name in used)
    return replace(plan, processes=processes, queues=queues, crossings=crossing, cpus=cpus, machine=machine)


def _way(source: str, target: str) -> Iterator[tuple[str, str]]:
    """The steps from one machine to another."""
    if source == target:
        return
    if source and target:
        yield source, ""
        yield "", target
    else:
        yield source, target


def _targets(one: InstancePlan) -> Iterable[str]:
    """The queues an instance puts something into."""
    return (*_queues(one.outputs), *(queue for called in one.invoked for queue in called.feeds))


def _queues(routes: Iterable[Iterable[Route]]) -> tuple[str, ...]:
    return tuple(name for some in routes for route in some for name in route.queues)
