"""`dflow compile`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dflow_core.cli.command import DONE, command, settings
from dflow_core.cli.output import Output, counted, seconds, size
from dflow_core.cli.services import Services
from dflow_core.cli.target import load_target
from dflow_core.model import write_om


@command("compile")
@click.argument("target")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The .om file.")
@click.option("--no-cache", is_flag=True, help="Compile everything again.")
@settings
def compile_(
    services: Services, output: Output, target: str, out: Path, no_cache: bool, options: dict[str, str]
) -> int:
    """Compile TARGET, a graph file or module:graph, into one .om file that starts without compiling."""
    begin = time.monotonic()
    with services.session(options) as session:
        graph = load_target(target, session.registry)
        model = session.compile(graph, cache=not no_cache)
    written = write_om(model, out)
    took = time.monotonic() - begin
    output.line(f"{out}: {counted(len(model.submodels), 'submodel')}, {size(written)}, in {seconds(took)}")
    document = {"graph": model.name, "file": out, "size": written, "submodels": list(model.submodels), "seconds": took}
    output.document(document)
    return DONE


COMMAND = compile_
