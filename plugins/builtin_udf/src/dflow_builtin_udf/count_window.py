"""When a CountBatch sends: a state machine without I/O.

Rules (runtime semantics, section 16; [+] marks what is ours):

- A batch is sent when `batch_size` items are there; it never waits.
- The timer starts with the first item of a batch and ends it after `timeout` seconds with what is there.
- With a stride s, 0 < s < batch_size, the first s items leave after a batch and the rest stays for the next. What
  stays after a full batch is sent again when the timer that was running fires, and every `timeout` from then on, until
  nothing is left.
- [+] An item that does not fit ends with an error by itself; what was collected stays.
- [+] A message flagged EOS, and the end of the graph, send what is left unless all of it was in a batch before.
- [+] A cancelled item is taken out as if it had never come.
- [+] An item belongs to the first batch it is in, and ends with that. Where batches may follow that hold nothing new (a
  timer with a stride), the newest item's transaction gets several: they are sent as parts of it, and `EndParts` follows
  as soon as no more can come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dflow_builtin_udf.instructions import Drop, Emit, EndOfSequence, EndParts, Instruction, Refuse
from dflow_builtin_udf.items import Item, unfit


class CountWindow:
    """Collects items until there are enough, or time is up.

    Args:
        batch_size: Items in a batch.
        slide_stride: How many leave after a batch; 0 or `batch_size` for all.
        timeout: Seconds after which an incomplete batch is sent; 0 for never.
        padding: Whether batches are filled up with zeros, in number and in size.
    """

    def __init__(self, batch_size: int, slide_stride: int = 0, timeout: float = 0.0, padding: bool = False) -> None:
        self._size = batch_size
        self._stride = slide_stride % batch_size
        self._timeout = timeout
        self._padding = padding
        self._items: list[Item] = []
        self._old = 0
        self._open: Item | None = None
        self._running = False
        self.deadline: float | None = None

    def offer(self, item: Item, now: float) -> Iterator[Instruction]:
        """Take what arrived."""
        why = item.fault or self._misfit(item)
        if why or item.is_null:
            if item.is_eos:
                yield from self.flush()
            if why:
                hint = "padding=True fills smaller ones up" if "began with" in why and not self._padding else None
                yield Refuse(item, why, hint)
            elif item.is_eos:
                yield EndOfSequence(item)
            else:
                yield Refuse(item, "a message without data cannot be put into a batch")
            return
        yield from self._close_parts()
        if not self._running:
            self._running = True
            self.deadline = now + self._timeout if self._timeout else None
        self._items.append(item)
        if len(self._items) >= self._size:
            yield from self._emit(keep=not item.is_eos)
            self._running = False
            if not self._items:
                self.deadline = None
        elif item.is_eos:
            yield from self.flush()

    def expire(self, now: float) -> Iterator[Instruction]:
        """Tell it the time."""
        if self.deadline is None or now < self.deadline:
            return
        if self._items:
            yield from self._emit(keep=True)
        self._running = bool(self._items)
        self.deadline = now + self._timeout if self._items else None

    def flush(self) -> Iterator[Instruction]:
        """Tell it that no more will come."""
        if len(self._items) > self._old:
            yield from self._emit(keep=False)
        else:
            yield from self._close_parts()
            self._items.clear()
            self._old = 0
        self._running, self.deadline = False, None

    def let_go(self, is_unwanted: Callable[[Item], bool]) -> Iterator[Instruction]:
        """Take out items that nobody wants any more."""
        gone = [item for item in self._items if is_unwanted(item)]
        if not gone:
            return
        if self._open in gone:
            yield from self._close_parts()
        fresh = tuple(item for item in self._items[self._old :] if item in gone)
        if fresh:
            yield Drop(fresh)
        self._old -= sum(item in gone for item in self._items[: self._old])
        self._items = [item for item in self._items if item not in gone]
        if len(self._items) == self._old:  # nothing that was in no batch yet
            yield from self.flush()

    def clear(self) -> None:
        """Forget everything."""
        self._items, self._old, self._open = [], 0, None
        self._running, self.deadline = False, None

    def _misfit(self, item: Item) -> str:
        if item.is_null or not self._items:
            return ""
        return unfit(self._items[0], item, any_size=self._padding)

    def _emit(self, keep: bool) -> Iterator[Instruction]:
        window, old = tuple(self._items), self._old
        stride = self._stride or len(window)
        self._items = self._items[stride:] if keep else []
        self._old = len(self._items)
        head = window[-1]
        again = bool(self._items) and self._timeout > 0
        part = again or self._open is head
        self._open = head if part else None
        yield Emit(window, head, old, self._size if self._padding else 0, part)
        if not again:
            yield from self._close_parts()

    def _close_parts(self) -> Iterator[Instruction]:
        if self._open is not None:
            yield EndParts(self._open)
            self._open = None
