"""When a TimeBatch sends: a state machine without I/O.

Rules (runtime semantics, section 15; [+] marks what is ours). Times are those in the messages' heads, in the user's own
unit; S is the start of the first item, E the end of the last one, and E - S the span.

- Span < window: wait, unless EOS or SEG ends the batch. Span == window: send. Window -1: EOS or SEG alone end a batch.
- What EOS or SEG cut short is dropped with `drop_remainder`; EOS then still goes on, as a null message.
- Null messages must be flagged EOS. Without anything collected they go on as they are, else they end the batch.
- [+] An item that does not fit ends with an error by itself, and what was collected stays. One that makes the span too
  long ends the batch before it, because nothing after it could fit either.
- [+] `timeout` seconds after its first item arrived a batch ends as if by SEG.
- [+] At most `max_items` items of `max_bytes` bytes are held; what comes on top of that ends with an error.
- [+] A cancelled item is taken out as if it had never come.
- [+] The end of the graph ends the batch as if by SEG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dflow_builtin_udf.instructions import Drop, Emit, EndOfSequence, Instruction, Refuse
from dflow_builtin_udf.items import Item, unfit
from dflow_core.message import Flag


class TimeWindow:
    """Collects items until their times span a window.

    Args:
        window: Span of a batch in the unit of the messages' times; -1 for no limit.
        batch_dim: Dimension to join along; -1 for a new first one.
        drop_remainder: Whether a batch cut short is dropped.
        timeout: Seconds after which a batch is cut short; 0 for never.
        max_items, max_bytes: Most that is held.
    """

    def __init__(
        self, window: float, batch_dim: int = -1, drop_remainder: bool = False, timeout: float = 0.0,
        max_items: int = 8192, max_bytes: int = 1 << 30,
    ) -> None:
        self._window = window
        self._batch_dim = batch_dim
        self._drop = drop_remainder
        self._timeout = timeout
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._items: list[Item] = []
        self._bytes = 0
        self.deadline: float | None = None

    def offer(self, item: Item, now: float) -> Iterator[Instruction]:
        """Take what arrived."""
        why = item.fault or self._misfit(item)
        too_long = "" if why or item.is_null else self._overflow(item)
        if why or too_long:
            if too_long or item.info.flags & (Flag.EOS | Flag.SEG):
                yield from self.cut()
            yield Refuse(item, why or too_long)
            return
        if item.is_null:
            yield from self._end(item) if self._items else (EndOfSequence(item),)
            return
        if not self._items:
            self.deadline = now + self._timeout if self._timeout else None
        self._items.append(item)
        self._bytes += item.nbytes
        if self._span == self._window or item.info.flags & (Flag.EOS | Flag.SEG):
            yield from self._end(item)

    def expire(self, now: float) -> Iterator[Instruction]:
        """Tell it the time."""
        if self.deadline is not None and now >= self.deadline:
            yield from self.cut()

    def cut(self) -> Iterator[Instruction]:
        """End the batch as if by SEG."""
        if self._items:
            yield from self._end(self._items[-1], cut=True)

    def let_go(self, is_unwanted: Callable[[Item], bool]) -> Iterator[Instruction]:
        """Take out items that nobody wants any more."""
        gone = tuple(item for item in self._items if is_unwanted(item))
        if gone:
            self._items = [item for item in self._items if item not in gone]
            self._bytes -= sum(item.nbytes for item in gone)
            self.deadline = self.deadline if self._items else None
            yield Drop(gone)

    def clear(self) -> None:
        """Forget everything."""
        self._items = []
        self._bytes, self.deadline = 0, None

    @property
    def _span(self) -> int:
        return self._items[-1].info.end_time - self._items[0].info.start_time

    def _end(self, head: Item, cut: bool = False) -> Iterator[Instruction]:
        items, span = tuple(self._items), self._span
        self._items.clear()
        self._bytes, self.deadline = 0, None
        if not (self._drop and self._window > 0 and span < self._window):
            yield Emit(items, head, times=(items[0].info.start_time, items[-1].info.end_time))
            return
        eos = head.is_eos and not cut
        dropped = tuple(item for item in items if not (eos and item is head))
        if dropped:
            yield Drop(dropped)
        if eos:
            yield EndOfSequence(head)

    def _misfit(self, item: Item) -> str:
        """Why an item cannot be taken, its effect on the span apart."""
        if item.is_null:
            return "" if item.is_eos else "a message without data must be flagged EOS"
        heads = [msg.info for msg in item.msgs]
        if any((h.start_time, h.end_time, h.flags) != (heads[0].start_time, heads[0].end_time, heads[0].flags)
               for h in heads[1:]):
            return "inputs that belong together must have equal times and flags"
        if item.info.start_time > item.info.end_time:
            return f"its time ends at {item.info.end_time}, before it starts at {item.info.start_time}"
        for spec in item.specs:
            if 0 in (spec.shape or ()):
                return f"got {spec}, which is empty"
            if self._batch_dim >= len(spec.shape or ()):
                return f"got {spec}, which has no dimension {self._batch_dim} to join along"
        return self._misfit_to_batch(item) if self._items else ""

    def _misfit_to_batch(self, item: Item) -> str:
        end = self._items[-1].info.end_time
        if item.info.start_time < end:
            return f"its time starts at {item.info.start_time}, before the last one ended at {end}"
        if len(self._items) >= self._max_items:
            return f"{len(self._items)} items are waiting for the end of the batch: option max_items allows no more"
        if self._bytes + item.nbytes > self._max_bytes:
            limit = self._max_bytes
            return f"{self._bytes} bytes are waiting for the end of the batch: option max_bytes allows only {limit}"
        return unfit(self._items[0], item, self._batch_dim if self._batch_dim >= 0 else None)

    def _overflow(self, item: Item) -> str:
        start = self._items[0].info.start_time if self._items else item.info.start_time
        span = item.info.end_time - start
        if 0 < self._window < span:
            return f"the batch would span {span} (from {start} to {item.info.end_time}), its window is {self._window:g}"
        return ""
