"""`dflow draw`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import click

from dflow_core.cli.command import DONE, command
from dflow_core.cli.output import Output
from dflow_core.cli.services import Services
from dflow_core.cli.target import load_target
from dflow_core.graph import FlowGraph

FORMATS: Mapping[str, Callable[[FlowGraph], str]] = MappingProxyType({
    "text": str,
    "mermaid": FlowGraph.to_mermaid,
    "dot": FlowGraph.to_dot,
})


@command("draw")
@click.argument("target")
@click.option("-f", "--format", "kind", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write it to a file.")
def draw(services: Services, output: Output, target: str, kind: str, out: Path | None) -> int:
    """Draw TARGET, a graph file, an .om file or module:graph, as text, Mermaid or DOT."""
    graph = load_target(target, services.registry())
    picture = FORMATS[kind](graph)
    if out:
        out.write_text(picture + "\n", encoding="utf-8")
        output.line(f"{out}: {kind} of {graph.name}")
    else:
        output.line(picture)
    output.document({"graph": graph.name, "format": kind, "picture": picture})
    return DONE


COMMAND = draw
