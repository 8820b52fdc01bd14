"""How lines become batches, and batches become pages again: state machines that know no clock and do no I/O.

Two ways to batch. `page_batches` is rapidocr's: the lines of one page by width, six at a time, all padded to the
widest and to 320 pixels at least; the text equals rapidocr's. `BucketBatcher` collects lines of the same bucket
from whatever pages come: hardly any padding and full batches. The width that a line is padded to then depends on
that line alone, so a page reads the same whichever pages travel with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from dflow_ocr.arrays import Pixels
from dflow_ocr.crops import by_width
from dflow_ocr.recognise import HEIGHT

__all__ = ["BATCH", "COLUMNS", "Batch", "BucketBatcher", "PageGatherer", "page_batches"]

BATCH: Final = 6
COLUMNS: Final = 640
"""The most columns in a batch of a bucket. From some 300 columns on a column costs the same however many go along, so
larger batches only make the recogniser's buffers larger, and every pair of width and size is a shape it meets anew."""
_LEAST_WIDTH: Final = 320

ItemT = TypeVar("ItemT")
KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True)
class Batch(Generic[ItemT]):
    """Items to be worked on together, and the width they are padded to."""

    width: int
    items: tuple[ItemT, ...]


def page_batches(crops: Sequence[Pixels], size: int = BATCH) -> list[Batch[int]]:
    """Batch the lines of one page as rapidocr does.

    Args:
        crops: The page's line images.
        size: The largest batch.

    Returns:
        Batches of positions in `crops`; none for a page without lines.
    """
    order = by_width(crops) if crops else []
    batches = []
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        widest = max(crops[index].shape[1] / crops[index].shape[0] for index in chosen)
        batches.append(Batch(int(HEIGHT * max(_LEAST_WIDTH / HEIGHT, widest)), tuple(chosen)))
    return batches


class BucketBatcher(Generic[ItemT]):
    """Collects items by width until a batch is full, has waited long enough, or the caller flushes.

    The caller brings the time along as a number, in any unit, that only grows.
    """

    def __init__(self, size: int = BATCH, wait: float | None = None, columns: int | None = None) -> None:
        """Start empty.

        Args:
            size: How many items make a full batch at most.
            wait: The longest time an item waits for company; None waits until `flush`.
            columns: The most columns of pixels in a batch, so that wide items travel in smaller batches; a single
                item may be wider. None sets no limit.

        Raises:
            ValueError: The size is below one or the wait is negative.
        """
        if size < 1:
            raise ValueError(f"a batch needs at least one item, not {size}")
        if wait is not None and wait < 0:
            raise ValueError(f"an item cannot wait {wait}")
        self._size: Final = size
        self._wait: Final = wait
        self._columns: Final = columns
        # Insertion order is age: a bucket is entered when its first item comes and left when its batch goes.
        self._open: dict[int, list[ItemT]] = {}
        self._since: dict[int, float] = {}

    def __len__(self) -> int:
        """How many items wait."""
        return sum(len(items) for items in self._open.values())

    def __repr__(self) -> str:
        waiting = ", ".join(f"{width}: {len(items)}" for width, items in sorted(self._open.items()))
        return f"<BucketBatcher of {self._size}, waiting {{{waiting}}}>"

    def full_size(self, width: int) -> int:
        """Tell how many items make a full batch.

        Args:
            width: The width of the bucket.

        Returns:
            The number of items.
        """
        if self._columns is None:
            return self._size
        return max(1, min(self._size, self._columns // width))

    def add(self, key: int, item: ItemT, now: float = 0.0) -> list[Batch[ItemT]]:
        """Take one item.

        Args:
            key: The width of its bucket.
            item: The item.
            now: The time.

        Returns:
            The batch that this item filled, if it did, and every batch whose oldest item has waited long enough.
        """
        self._open.setdefault(key, []).append(item)
        self._since.setdefault(key, now)
        full = [self._close(key)] if len(self._open[key]) >= self.full_size(key) else []
        return full + self.due(now)

    def due(self, now: float) -> list[Batch[ItemT]]:
        """Give up waiting for company where the wait is over.

        Args:
            now: The time.

        Returns:
            The batches whose oldest item has waited long enough, oldest first.
        """
        if self._wait is None:
            return []
        late = [width for width, since in self._since.items() if now - since >= self._wait]
        return [self._close(width) for width in late]

    def next_due(self) -> float | None:
        """Tell when to call `due` next.

        Returns:
            The time at which the oldest item has waited long enough; None when nothing waits, or waits for `flush`.
        """
        if self._wait is None or not self._since:
            return None
        return min(self._since.values()) + self._wait

    def flush(self) -> list[Batch[ItemT]]:
        """Give out everything that waits.

        Returns:
            The batches, narrowest first; none when nothing waits.
        """
        return [self._close(width) for width in sorted(self._open)]

    def _close(self, width: int) -> Batch[ItemT]:
        del self._since[width]
        return Batch(width, tuple(self._open.pop(width)))


class PageGatherer(Generic[KeyT, ItemT]):
    """Puts the lines of pages together again, in whatever order pages and lines come."""

    def __init__(self) -> None:
        """Start without pages."""
        self._wanted: dict[KeyT, int] = {}
        self._held: dict[KeyT, dict[int, ItemT]] = {}

    def __len__(self) -> int:
        """How many pages are under way."""
        return len(self._wanted.keys() | self._held.keys())

    def expect(self, page: KeyT, lines: int) -> list[ItemT] | None:
        """Announce a page.

        Args:
            page: What identifies the page.
            lines: How many lines it has; a page without lines is complete at once.

        Returns:
            The page's lines in order when they are all here already, else None.

        Raises:
            ValueError: The page was announced before.
        """
        if page in self._wanted:
            raise ValueError(f"page {page!r} was announced twice")
        self._wanted[page] = lines
        return self._finish(page)

    def add(self, page: KeyT, index: int, line: ItemT) -> list[ItemT] | None:
        """Take one line.

        Args:
            page: What identifies its page.
            index: Its place on the page, from 0.
            line: The line.

        Returns:
            The page's lines in order when this was the last of an announced page, else None.

        Raises:
            ValueError: That line was taken before.
        """
        held = self._held.setdefault(page, {})
        if index in held:
            raise ValueError(f"line {index} of page {page!r} came twice")
        held[index] = line
        return self._finish(page)

    def _finish(self, page: KeyT) -> list[ItemT] | None:
        held = self._held.get(page, {})
        if len(held) != self._wanted.get(page):
            return None
        self._held.pop(page, None)
        del self._wanted[page]
        return [held[index] for index in sorted(held)]
