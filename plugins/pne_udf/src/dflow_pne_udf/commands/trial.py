"""`dflow udf test`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from dflow_core.cli.command import DONE, FAILED, Refused, command
from dflow_core.cli.feeds import Feed, from_files, made_up
from dflow_core.cli.output import Output
from dflow_core.cli.results import as_data, summary
from dflow_core.cli.services import Services
from dflow_core.types import DataType, FuncSpec, TensorSpec
from dflow_pne_udf.commands.target import Found, check_loads, find, target
from dflow_pne_udf.native import LibraryPlace
from dflow_pne_udf.native.local import LocalRun, Sent


@command("test")
@target
@click.option("--function", default="", help="Function of a library that has several.")
@click.option("--ports", nargs=2, type=int, default=(1, 1), show_default=True, help="Inputs and outputs, for a .so.")
@click.option("-i", "--input", "files", multiple=True, help="in0=file.npy, or file.npz with arrays in0, in1, ...")
@click.option("--shape", "shapes", multiple=True, help="Made-up data, such as in0=2x3:float32; repeatable.")
@click.option("--count", default=1, show_default=True, help="Transactions of made-up data.")
@click.option("--param", "params", multiple=True, help="An init parameter, such as factor=2.5; repeatable.")
@click.option("--wait", default=60.0, show_default=True, help="Seconds it may take.")
def test(
    services: Services, output: Output, target: Path, cmake: str, limit: float, function: str, ports: tuple[int, int],
    files: tuple[str, ...], shapes: tuple[str, ...], count: int, params: tuple[str, ...], wait: float,
) -> int:
    """Run C++ functions in this process, without a graph: under a debugger, or to see what they give.

    The exit code is 1 if a transaction ended with an error.
    """
    found = find(target, output, cmake, limit)
    check_loads(found)
    place, ports = _place(found, function, ports)
    names = [f"in{i}" for i in range(ports[0])]
    specs = {name: TensorSpec(DataType.UNDEFINED) for name in names}
    feeds = from_files(files, names) if files else list(made_up(specs, count, shapes, 0))
    entry = services.registry().local_transport()
    with LocalRun(place, entry.factory(), ports, dict(map(_param, params)), found.library.stem) as run:
        sent = list(_sent(run, feeds, names, wait))
    for one in sent:
        said = summary(one.value) if one.error is None else f"error: {one.error}"
        output.line(f"transaction {one.trans_id}, output {one.output}: {said}", style="red" if one.error else None)
    output.document([
        {"transaction": one.trans_id, "output": one.output, "error": str(one.error or ""), "value": as_data(one.value)}
        for one in sent
    ])
    return FAILED if any(one.error for one in sent) else DONE


def _sent(run: LocalRun, feeds: Sequence[Feed], names: Sequence[str], wait: float) -> Iterator[Sent]:
    for feed in feeds:
        yield from run.feed([feed.values[name] for name in names], wait)
    yield from run.finish(wait)


def _place(found: Found, function: str, ports: tuple[int, int]) -> tuple[LibraryPlace, tuple[int, int]]:
    """What to run, and how many inputs and outputs it has."""
    library, folder = str(found.library), str(found.library.parent)
    if (config := found.config) is not None:
        return LibraryPlace(library, folder, config.functions, config.cpu), (config.input_num, config.output_num)
    kinds = dict(line.split(" ", 1)[::-1] for line in found.registered or ())
    known = ", ".join(sorted(kinds)) or "none"
    if function not in kinds and (function or len(kinds) != 1):
        raise Refused(f"which function? {found.library.name} registers: {known}", "name it with --function")
    name = function or next(iter(kinds))
    spec = FuncSpec(name, tuple(range(ports[0])), tuple(range(ports[1])), stream_input=kinds[name] == "queue")
    return LibraryPlace(library, folder, (spec,)), ports


def _param(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Refused(f"--param {text!r}: expected name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


TEST = test
