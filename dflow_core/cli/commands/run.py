"""`dflow run`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from dflow_core.cli.command import DONE, FAILED, command, describe, settings
from dflow_core.cli.feeds import Feed, from_files, made_up
from dflow_core.cli.output import Output, counted, seconds
from dflow_core.cli.results import as_data, outputs_of, save, summary
from dflow_core.cli.services import Services
from dflow_core.cli.target import load_target
from dflow_core.frontend import FlowGraph
from dflow_core.types import DataType, TensorSpec


@dataclass(slots=True)
class Run:
    """What came of a run, in order: values of each output, or what ended the transaction."""

    fed: int
    outputs: tuple[str, ...]
    results: list[tuple[object, ...] | Exception] = field(default_factory=list)
    seconds: float = 0.0
    status: str = "complete"
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> list[tuple[object, ...]]:
        """Results that are no errors."""
        return [result for result in self.results if not isinstance(result, Exception)]

    @property
    def failed(self) -> int:
        """How many ended with an error."""
        return len(self.results) - len(self.good)


@command("run")
@click.argument("target")
@click.argument("files", nargs=-1)
@click.option("-n", "--count", type=click.IntRange(1), default=1, show_default=True, help="How much data to make up.")
@click.option("--shape", "shapes", multiple=True, metavar="[NAME=]1x3x224x224[:DTYPE]", help="Shape to make up.")
@click.option("--seed", type=int, default=0, show_default=True, help="Makes the same data again.")
@click.option("--mode", type=click.Choice(["process", "inline"]), default="process", show_default=True)
@click.option("--in-flight", type=click.IntRange(1), help="Transactions under way at once.")
@click.option("--save", "target_file", type=click.Path(path_type=Path, dir_okay=False), help="Keep results (.npz).")
@click.option("--record", type=click.Path(path_type=Path), help="Keep failed transactions, for `dflow replay`.")
@settings
def run(
    services: Services, output: Output, target: str, files: tuple[str, ...], count: int, shapes: tuple[str, ...],
    seed: int, mode: str, in_flight: int | None, target_file: Path | None, record: Path | None, options: dict[str, str],
) -> int:
    """Run TARGET, a graph file, an .om file or module:graph, over FILES or over made-up data.

    A file is `batch.npz` with an array for each input, or `name=array.npy` for one input. The exit code is 1 if a
    transaction ended with an error. What queues have dropped, or dead nodes have lost, is told as `incomplete`.
    """
    options |= {"record": str(record)} if record else {}
    with services.session(options) as session:
        found = load_target(target, session.registry)
        given = from_files(files, found.input_names)
        graph = FlowGraph(found.outputs, found.options, found.name, mode=mode, session=session)
        with graph:
            feeds = given or list(made_up(_specs(graph), count, shapes, seed))
            done = _stream(graph, feeds, in_flight, progress=not output.as_json and sys.stderr.isatty())
            stats = graph.stats()
            done.status, done.notes = stats.status, stats.notes
    _tell(output, done)
    left_out = save(target_file, done.outputs, done.good) if target_file else []
    for name in left_out:
        output.line(f"not kept, because it is no array: {name}", style="yellow")
    if record and done.failed:
        output.line(f"look into it with: dflow replay {record}")
    output.document(_document(found.name, done))
    return FAILED if done.failed else DONE


def _specs(graph: FlowGraph) -> dict[str, TensorSpec]:
    """What is known of each input: what the caller declared, else what the models behind it say."""
    unknown = TensorSpec(DataType.UNDEFINED)
    return {
        data.name: data.schema or next((s for s in specs if s.dtype is not DataType.UNDEFINED), unknown)
        for data, specs in zip(graph.inputs, graph.running.input_specs)
    }


def _stream(graph: FlowGraph, feeds: Sequence[Feed], in_flight: int | None, progress: bool) -> Run:
    done = Run(len(feeds), graph.output_names)
    begin = time.monotonic()
    items = [feed.values for feed in feeds]
    values = [next(iter(item.values())) for item in items] if len(graph.inputs) == 1 else items
    for result in graph.map(values, in_flight=in_flight, errors="return", progress=progress, copy=True):
        error = isinstance(result, Exception)
        done.results.append(result if error else outputs_of(result, len(done.outputs)))  # type: ignore[arg-type]
    done.seconds = time.monotonic() - begin
    return done


def _tell(output: Output, done: Run) -> None:
    rows = [
        (number, name, summary(value))
        for number, result in enumerate(done.results, 1)
        if not isinstance(result, Exception)
        for name, value in zip(done.outputs, result)
    ]
    if rows:
        output.table(["nr#", "output", "value"], rows)
    for number, result in enumerate(done.results, 1):
        if isinstance(result, Exception):
            output.line(f"{number}: {result}", style="red")
    rate = f"{done.fed / done.seconds:.1f}/s" if done.seconds else "-"
    dropped = done.fed - len(done.results)
    ends = f"{counted(len(done.good), 'result')}, {counted(done.failed, 'error')}"
    ends += f", {dropped} without a result" if dropped > 0 else ""
    output.line(f"\n{done.fed} fed, {ends}, {seconds(done.seconds)}, {rate}")
    if done.status != "complete":
        output.line(done.status, style="yellow")
    for note in done.notes:
        output.line(note, style="yellow")


def _document(name: str, done: Run) -> dict[str, object]:
    results = [
        {"error": describe(result)}
        if isinstance(result, Exception)
        else {"outputs": {key: as_data(value) for key, value in zip(done.outputs, result)}}
        for result in done.results
    ]
    return {
        "graph": name, "status": done.status, "notes": done.notes, "fed": done.fed, "failed": done.failed,
        "seconds": done.seconds, "results": results,
    }


COMMAND = run
