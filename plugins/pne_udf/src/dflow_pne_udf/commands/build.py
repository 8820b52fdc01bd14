"""`dflow udf build`."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from dflow_core.cli.command import DONE, command
from dflow_core.cli.output import Output, counted, size
from dflow_core.cli.services import Services
from dflow_pne_udf.building.unpacked import LIBRARY
from dflow_pne_udf.commands.target import find, target


@command("build")
@target
@click.option("-o", "--output", "copy_to", type=click.Path(path_type=Path), help="Copy what was built into a folder.")
def build(
    services: Services, output: Output, target: Path, cmake: str, limit: float, copy_to: Path | None
) -> int:
    """Build the C++ functions of a project, as a graph with them would; nothing is built twice."""
    found = find(target, output, cmake, limit)
    if copy_to is not None:
        left_out = shutil.ignore_patterns(LIBRARY)
        shutil.copytree(found.library.parent, copy_to, symlinks=True, dirs_exist_ok=True, ignore=left_out)
    registered = found.registered or ()
    output.line(f"{found.library.name}: {counted(len(registered), 'function')}, package {size(len(found.package))}")
    output.line(str(found.library if copy_to is None else copy_to / found.library.name))
    if found.problem:
        output.line(f"it does not load here: {found.problem}", style="yellow")
    output.document({
        "library": found.library, "functions": registered, "package": len(found.package), "problem": found.problem,
    })
    return DONE


BUILD = build
