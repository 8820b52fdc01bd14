"""`dflow plan`."""

from __future__ import annotations

import click

from dflow_core.cli.command import DONE, command, settings
from dflow_core.cli.output import Output, counted, seconds, size
from dflow_core.cli.services import Services
from dflow_core.cli.target import load_target
from dflow_core.compiler import BuildReport
from dflow_core.deploy import MemoryEstimate, estimate_memory, restart_policies
from dflow_core.graph import write_deploy_template
from dflow_core.model import DeployPlan


@command("plan")
@click.argument("target")
@click.option("--no-cache", is_flag=True, help="Compile everything again.")
@click.option("--deploy-template", metavar="FILE", help="Write a deploy file to begin with, and end.")
@settings
def plan(
    services: Services, output: Output, target: str, no_cache: bool, deploy_template: str | None,
    options: dict[str, str],
) -> int:
    """How TARGET would run here: processes, devices, threads, queues and memory, and what the cache gave.

    The graph is compiled (or taken from the cache) and not started. Where nodes run is shown with the reason; a deploy
    file is given with `-O deploy_info=FILE`.
    """
    if deploy_template is not None:
        write_deploy_template(load_target(target, services.registry()), deploy_template)
        output.line(f"wrote {deploy_template}")
        output.document({"path": deploy_template})
        return DONE
    with services.session(options) as session:
        model, report = session.build(load_target(target, session.registry), cache=not no_cache)
        found = session.plan(model)
    memory = estimate_memory(model, found)
    processes = counted(len(found.processes), "process", "processes")
    output.line(f"{found.graph}: {processes} on {counted(found.cpus, 'CPU')}, queues by {found.transport}\n")
    _print_nodes(output, report)
    policies = restart_policies(model, found)
    _print_processes(output, found)
    words = [(name, policy.words) for name, policy in policies.items()]
    output.table(["process", "when it is lost"], words, title="restarts")
    output.line()
    _print_places(output, found)
    _print_budget(output, found)
    rows = [(queue.name, queue.depth, queue.overflow) for queue in found.queues]
    output.table(["queue", "depth#", "when full"], rows, title="queues")
    output.line(f"\n{_memory(memory)}")
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
        "restarts": policies,
        "queues": found.queues,
        "memory": memory,
        "placements": found.placements,
        "machines": found.machines,
        "crossings": found.crossings,
        "budget": found.budget,
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


def _print_places(output: Output, found: DeployPlan) -> None:
    """Which logical device each instance is on."""
    output.table(
        ["node", "instance", "logical device", "device", "type", "messages by", "why"],
        [
            (
                one.node, f"{i + 1} of {len(one.places)}{', spare' if place.spare else ''}", place.logical_device,
                f"{place.machine}/{place.device}" if place.machine else place.device, place.resource_type, one.dispatch,
                one.reason if i == 0 else "",
            )
            for one in found.placements
            for i, place in enumerate(one.places)
        ],
        title="placement",
    )
    output.line()


def _print_budget(output: Output, found: DeployPlan) -> None:
    total = sum(one.threads * one.instances for one in found.budget)
    output.table(
        ["node", "instances#", "threads each#", "why"],
        [(one.node, one.instances, one.threads, one.reason) for one in found.budget],
        title=f"threads: {total} on {counted(found.cpus, 'CPU')}, for models, OpenMP, BLAS and OpenCV together",
    )
    output.line()


def _memory(estimate: MemoryEstimate) -> str:
    unknown = len(estimate.unknown)
    rest = f", not counting {counted(unknown, 'output')} of unknown size" if unknown else ""
    return f"memory: models {size(estimate.models)}, full queues {size(estimate.queues)}{rest}"


def _notes(report: BuildReport, found: DeployPlan) -> list[str]:
    own = [f"{one.node}: {note}" for one in report.nodes for note in one.notes]
    return [*report.changes, *own, *found.notes]


COMMAND = plan
