"""`dflow infer`: a model over many inputs, from files to files."""

from __future__ import annotations

import hashlib
import queue
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from dflow_core.cli.command import DONE, FAILED, Refused, command, settings
from dflow_core.cli.output import Output, counted, seconds
from dflow_core.cli.services import Services
from dflow_core.errors import DflowError
from dflow_offline_inference.commands.folder import Failure, ResultFolder
from dflow_offline_inference.commands.functions import Function, load_function
from dflow_offline_inference.commands.items import Item, find_items, prioritized
from dflow_offline_inference.commands.progress import progress_bar
from dflow_offline_inference.config import WORKERS, ModelConfig
from dflow_offline_inference.offline import Handle, OfflineInference

_MODEL = "model"
_SHOWN = 5
_SLICE = 1.0


@dataclass(slots=True)
class Run:
    """One run over the items that have no result yet.

    Args:
        offline: Runs the model.
        folder: Takes the results.
        pre, post: Make inputs of items, and what is kept of results.
        window: Items under way at once.
        tick: Told of each item that has ended.
    """

    offline: OfflineInference
    folder: ResultFolder
    pre: Function | None
    post: Function | None
    window: int
    tick: Callable[[int], None]
    done: int = 0
    failures: list[Failure] = field(default_factory=list)
    _under_way: int = 0
    _ended: queue.SimpleQueue[Handle] = field(default_factory=queue.SimpleQueue)

    def over(self, items: Sequence[Item]) -> None:
        """Run all; what fails is noted."""
        for item in items:
            while self._under_way >= self.window or not self._ended.empty():
                self._collect()
            self._submit(item)
        while self._under_way:
            self._collect()

    def _submit(self, item: Item) -> None:
        try:
            loaded = item.load()
            inputs = loaded if self.pre is None else self.pre(loaded)
            handle = self.offline.infer(_MODEL, inputs, priority=item.priority, context=item.name)
        except Exception as error:  # whatever a file or a function of the user's does ends its own item
            self._failed(item.name, error)
            return
        self._under_way += 1
        handle.add_done_callback(self._ended.put)

    def _collect(self) -> None:
        try:
            handle = self._ended.get(timeout=_SLICE)
        except queue.Empty:
            return
        self._under_way -= 1
        name = str(handle.context)
        outcome = handle.outcome()
        try:
            if isinstance(outcome, Exception):
                raise outcome
            self.folder.keep(name, outcome if self.post is None else self.post(outcome))
        except Exception as error:
            self._failed(name, error)
        else:
            self.done += 1
            self.tick(len(self.failures))

    def _failed(self, name: str, error: Exception) -> None:
        message = error.message if isinstance(error, DflowError) else str(error)
        self.failures.append(Failure(name, type(error).__name__, message))
        self.tick(len(self.failures))


@command("infer")
@click.option("--model", required=True, type=click.Path(path_type=Path), help="A .onnx, .pb or .om file.")
@click.option("--engine", default="", help="Engine that runs it, such as CPU or NPU.")
@click.option("--input", "source", required=True, help="A folder, a pattern, an .npz or a .jsonl file.")
@click.option("--output", "target", required=True, type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the results.")
@click.option("--pre", default="", metavar="MODULE:FUNCTION", help="Makes the model's inputs of an item.")
@click.option("--post", default="", metavar="MODULE:FUNCTION", help="Makes what is kept of a result.")
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Rows that share a call.")
@click.option("--instances", type=click.IntRange(1), default=1, show_default=True, help="Workers of the model.")
@click.option("--threads", type=click.IntRange(0), default=0, help="Threads of each worker; 0 shares out the CPUs.")
@click.option("--workers", type=click.Choice(WORKERS), default="thread", show_default=True,
              help="Where workers run.")
@click.option("--priority", "priorities", multiple=True, metavar="[PATTERN=]NUMBER",
              help="Items whose name matches go earlier the higher it is; repeatable.")
@click.option("--restart", is_flag=True, help="Run all items again, whatever is in the folder.")
@settings
def infer(
    services: Services, output: Output, model: Path, engine: str, source: str, target: Path, pre: str, post: str,
    batch: int, instances: int, threads: int, workers: str, priorities: tuple[str, ...], restart: bool,
    options: dict[str, str],
) -> int:
    """Run a model over many inputs.

    Every item of --input gives one file in --output, called like the item with `.npz` (or `.json`, for what --post
    returns) behind. Run again, the command goes on where it stopped: items that have their file are left out. Items
    that failed are listed in `failed.jsonl` with causes, and the exit code is 1 if there are any.
    """
    if not model.is_file():
        raise Refused(f"--model {model}: no such file")
    before, after = load_function("--pre", pre), load_function("--post", post)
    config = ModelConfig(model, engine, instances, threads, batch)
    began = time.monotonic()
    with services.session(options) as session, OfflineInference(
        {_MODEL: config}, workers="process" if workers == "process" else "thread", session=session
    ) as offline:
        found = find_items(source, offline.specs(_MODEL)[0], before is not None, target)
        items = prioritized(found, priorities)
        with ResultFolder(target, {"model": _digest(model), "pre": pre, "post": post}, restart) as folder:
            for item in items if restart else ():
                folder.forget(item.name)
            todo = [item for item in items if not folder.finished(item.name)]
            shown = not output.as_json and sys.stderr.isatty()
            with progress_bar(len(items), len(items) - len(todo), shown) as tick:
                run = Run(offline, folder, before, after, 2 * offline.overview().slots[_MODEL][1], tick)
                try:
                    run.over(todo)
                finally:
                    listed = folder.list_failed(run.failures)
    return _tell(output, model, len(items), len(items) - len(todo), run, listed, time.monotonic() - began)


def _tell(
    output: Output, model: Path, total: int, skipped: int, run: Run, listed: Path | None, took: float
) -> int:
    failed = len(run.failures)
    for failure in run.failures[:_SHOWN]:
        output.line(f"{failure.item}: {failure.error}: {failure.message.splitlines()[0] if failure.message else ''}",
                    style="red")
    rate = (run.done + failed) / took if took else 0.0
    text = f"{counted(total, 'item')}: {run.done} done, {failed} failed"
    text += f", {skipped} finished before" if skipped else ""
    output.line(f"{text}; {seconds(took)}, {rate:.1f}/s")
    if listed is not None:
        output.line(f"failed items and causes: {listed}")
    output.document({
        "model": model, "output": run.folder.path, "total": total, "finished_before": skipped, "done": run.done,
        "failed": failed, "seconds": took, "rate": rate, "failures": run.failures,
    })
    return FAILED if failed else DONE


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


COMMAND = infer
