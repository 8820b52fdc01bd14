"""`dflow plan`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import click

from dflow_core.cli.command import DONE, command, settings
from dflow_core.cli.output import Output, seconds, size
from dflow_core.cli.services import Services
from dflow_core.cli.target import load_target
from dflow_core.compiler import BuildReport
from dflow_core.message import DATA_OFFSET
from dflow_core.model import DeployPlan, FlowModel, QueuePlan


@command("plan")
@click.argument("target")
@click.option("--no-cache", is_flag=True, help="Compile everything again.")
@settings
def plan(services: Services, output: Output, target: str, no_cache: bool, options: dict[str, str]) -> int:
    """How TARGET would run here: processes, devices, threads, queues and memory, and what the cache gave.

    The graph is compiled (or taken from the cache) and not started.
    """
    with services.session(options) as session:
        model, report = session.build(load_target(target, session.registry), cache=not no_cache)
        found = session.plan(model)
    output.line(f"{found.graph}: {len(found.processes)} processes on {found.cpus} CPUs, queues by {found.transport}\n")
    _print_nodes(output, report)
    _print_processes(output, found)
    rows = _queues(model, found.queues)
    output.table(
        ["queue", "depth#", "when full", "message#"],
        [(q.name, q.depth, q.overflow, "?" if bytes_ is None else size(bytes_)) for q, bytes_ in rows],
        title="queues",
    )
    output.line(f"\n{_memory(rows)}")
    for note in _notes(report, found):
        output.line(f"- {note}")
    output.document({
        "graph": found.graph,
        "cpus": found.cpus,
        "transport": found.transport,
        "nodes": report.nodes,
        "cache_hits": report.cache_hits,
        "changes": report.changes,
        "seconds": report.seconds,
        "processes": found.processes,
        "queues": [{"name": q.name, "depth": q.depth, "overflow": q.overflow, "bytes": b} for q, b in rows],
        "notes": found.notes,
    })
    return DONE


def _print_nodes(output: Output, report: BuildReport) -> None:
    output.table(
        ["node", "engine", "cache", "took#"],
        [(one.node, one.engine, one.cache, seconds(one.seconds)) for one in report.nodes],
        title=f"nodes: {report.cache_hits} of {len(report.nodes)} from the cache, {seconds(report.seconds)}",
    )
    output.line()


def _print_processes(output: Output, found: DeployPlan) -> None:
    output.table(
        ["process", "runs", "device", "threads#"],
        [
            (process.name, f"{one.model} {one.index + 1} of {one.count}", one.device, one.threads)
            for process in found.processes
            for one in process.instances
        ],
        title="processes",
    )
    output.line()


def _queues(model: FlowModel, queues: Sequence[QueuePlan]) -> list[tuple[QueuePlan, int | None]]:
    """Each queue with the bytes of its messages, where the models say."""
    return [(queue, message_size(model, queue.name.partition("->")[0])) for queue in queues]


def message_size(model: FlowModel, endpoint: str) -> int | None:
    """Bytes of a message of an endpoint; None where a dimension is free or nothing is known."""
    producer = model.relation.producer(endpoint)
    specs = [model.submodels[producer[0]].outputs[producer[1] :][:1]] if producer else []
    specs += [model.submodels[name].inputs[port:][:1] for name, port in model.relation.consumers(endpoint)]
    for spec in (spec for found in specs for spec in found):
        if spec.shape is not None and spec.dtype.itemsize and all(dim >= 0 for dim in spec.shape):
            return DATA_OFFSET + math.prod(spec.shape) * spec.dtype.itemsize
    return None


def _memory(rows: Sequence[tuple[QueuePlan, int | None]]) -> str:
    known = [queue.depth * bytes_ for queue, bytes_ in rows if bytes_ is not None]
    if not known:
        return "memory: the models do not say how large messages are"
    rest = f", {len(rows) - len(known)} queues unknown" if len(known) < len(rows) else ""
    return f"memory: at most {size(sum(known))} in full queues{rest}"


def _notes(report: BuildReport, found: DeployPlan) -> list[str]:
    own = [f"{one.node}: {note}" for one in report.nodes for note in one.notes]
    return [*report.changes, *own, *found.notes]


COMMAND = plan
