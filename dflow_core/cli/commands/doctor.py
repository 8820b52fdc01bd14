"""`dflow doctor`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from dflow_core.cli import diagnosis
from dflow_core.cli.command import DONE, FAILED, command
from dflow_core.cli.diagnosis import Finding
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services
from dflow_core.deploy import machine_resources
from dflow_core.options import resolve

_STYLES = {"ok": "green", "note": "yellow", "lacks": "red"}


@command("doctor")
@click.option("--quick", is_flag=True, help="Start no process and import no model library.")
def doctor(services: Services, output: Output, quick: bool) -> int:
    """What this machine lacks, and the exact fix.

    The exit code is 1 if graphs cannot run here.
    """
    found = list(_findings(services, quick))
    output.table(["", "subject", "found"], [(one.state, one.subject, one.found) for one in found])
    to_fix = [one for one in found if one.fix]
    if to_fix:
        output.line("\nTo mend:")
    for one in to_fix:
        output.line(f"  {one.subject}: {one.fix}", style=_STYLES[one.state])
    output.document({"findings": found, "ready": not any(one.state == "lacks" for one in found)})
    return FAILED if any(one.state == "lacks" for one in found) else DONE


def _findings(services: Services, quick: bool) -> list[Finding]:
    registry = services.registry()
    found = [diagnosis.python(), diagnosis.system(), diagnosis.compiler(), *diagnosis.parts(registry)]
    machine = machine_resources()
    found += [diagnosis.cpus(machine), diagnosis.memory(machine), diagnosis.files(), diagnosis.cache(_cache_folder())]
    if not quick:
        found += diagnosis.libraries()
        found += diagnosis.devices(registry)
        found.append(diagnosis.processes(lambda: _start(services)))
    return found


def _cache_folder() -> Path | None:
    folder = resolve(environ=os.environ).cache_dir
    return Path(folder) if folder else None


def _start(services: Services) -> float:
    """Run a graph of one function in a process of its own."""
    begin = time.monotonic()
    services.trial()
    return time.monotonic() - begin


COMMAND = doctor
