"""The progress bar: items done, rate, time left."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    """Items a second, over the last while."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.finished_speed or task.speed or 0.0:.1f}/s")


@contextlib.contextmanager
def progress_bar(total: int, done: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error.

    Args:
        total: Items in all.
        done: Items that are finished already.
        shown: Whether to show it.

    Yields:
        A function that is told how many items failed so far, once for each that has ended.
    """
    if not shown:
        yield lambda _failed: None
        return
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task("infer", total=total, completed=done)

        def tick(failed: int) -> None:
            bar.update(task, advance=1, description=f"infer ({failed} failed)" if failed else "infer")

        yield tick
