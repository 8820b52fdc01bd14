"""The progress bar of `map`: rich's, where it is installed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, TypeAlias

from dflow_core.errors import UsageError

if TYPE_CHECKING:
    from dflow_core.executor import Outcome

Tick: TypeAlias = "Callable[[Outcome], None]"


@contextlib.contextmanager
def counting(
    items: Iterable[object], progress: bool | Callable[[int], None], title: str
) -> Iterator[tuple[Iterable[object], Tick | None]]:
    """Items, and what to call when one of them has ended.

    Args:
        items: What will be fed.
        progress: False for nothing, True for a bar, or a function that takes the number of finished items.
        title: What stands before the bar.

    Raises:
        UsageError: if a bar is wanted and rich is missing.
    """
    if progress is False:
        yield items, None
        return
    if callable(progress):
        report, done = progress, 0

        def tick(_outcome: Outcome) -> None:
            nonlocal done
            done += 1
            report(done)

        yield items, tick
        return
    try:
        from rich.progress import Progress
    except ImportError:
        raise UsageError("progress=True needs rich", hint="pip install 'dflow-core[cli]'") from None
    total = len(items) if isinstance(items, Sized) else None
    with Progress() as bar:
        task = bar.add_task(title, total=total)
        yield items, lambda _outcome: bar.advance(task)
