"""`dflow check`."""

from __future__ import annotations

import time

import click

from dflow_core.cli.command import DONE, FAILED, command, settings
from dflow_core.cli.output import Output, counted, seconds
from dflow_core.cli.services import Services
from dflow_core.cli.target import load_target


@command("check")
@click.argument("target")
@settings
def check(services: Services, output: Output, target: str, options: dict[str, str]) -> int:
    """All faults of TARGET at once: a graph file, an .om file, or module:graph. Nothing is compiled or started.

    The exit code is 1 if there are faults.
    """
    with services.session(options) as session:
        graph = load_target(target, session.registry)
        begin = time.monotonic()
        faults = session.check(graph)
        took = time.monotonic() - begin
    for number, fault in enumerate(faults, 1):
        output.line(f"{number}. {fault}", style="red")
    told = f"{counted(len(graph.nodes), 'node')}, {counted(len(faults), 'fault') if faults else 'no faults'}"
    output.line(f"{graph.name}: {told} ({seconds(took)})", style=None if faults else "green")
    output.document({"graph": graph.name, "nodes": len(graph.nodes), "faults": faults, "seconds": took})
    return FAILED if faults else DONE


COMMAND = check
