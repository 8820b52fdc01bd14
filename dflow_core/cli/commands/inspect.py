"""`dflow inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from dflow_core.cli.command import DONE, command
from dflow_core.cli.output import Output, counted, size
from dflow_core.cli.services import Services
from dflow_core.model import FlowModel, OmInfo, PneModel, inspect_om, read_om


@command("inspect")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Load every submodel too, so that every byte is checked.")
def inspect(services: Services, output: Output, file: Path, verify: bool) -> int:
    """What is in a compiled .om FILE: its models with their tensors, its partitions, and what made it."""
    info = inspect_om(file)
    model = read_om(file) if verify else info.model
    output.line(f"{model.name}: {file}, {size(info.size)}, format {info.format_version}")
    for key, value in sorted(model.made_by.items()):
        output.line(f"  made by {key} {value}")
    output.line(f"  inputs   {', '.join(model.relation.input_names)}")
    output.line(f"  outputs  {', '.join(model.relation.output_names)}")
    output.line()
    output.table(
        ["submodel", "kind", "engine", "bytes#", "offset#", "tensors"],
        [
            (one.name, one.type, one.engine, size(one.partition.size), one.partition.offset, _tensors(model, one.name))
            for one in info.submodels
        ],
    )
    for one in model.relation.invoked:
        sides = f"{counted(len(one.inputs), 'input')}, {counted(len(one.outputs), 'output')}"
        output.line(f"  {one.model} calls {one.key!r}: {sides}")
    if verify:
        output.line(f"\nevery byte checked: {counted(len(model.submodels), 'submodel')} loaded", style="green")
    output.document(_document(info, model, verify))
    return DONE


def _tensors(model: FlowModel, name: str) -> str:
    found = model.submodels.get(name)
    return signature(found) if found else "-"


def signature(model: PneModel) -> str:
    """What a model takes and gives: `float[1, 3] -> float[1, 2]`."""
    sides = (", ".join(map(str, side)) or "?" for side in (model.inputs, model.outputs))
    return " -> ".join(sides)


def _document(info: OmInfo, model: FlowModel, verified: bool) -> dict[str, object]:
    return {
        "graph": model.name,
        "format_version": info.format_version,
        "size": info.size,
        "made_by": model.made_by,
        "options": model.options,
        "inputs": model.relation.input_names,
        "outputs": model.relation.output_names,
        "partitions": [
            {"type": p.type, "offset": p.offset, "size": p.size, "sha256": p.digest.hex()} for p in info.partitions
        ],
        "submodels": [
            {"name": one.name, "kind": one.type, "engine": one.engine, "size": one.partition.size}
            for one in info.submodels
        ],
        "invoked": model.relation.invoked,
        "verified": verified,
    }


COMMAND = inspect
