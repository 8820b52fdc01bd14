"""Of which transactions a function with several queues has a message of one input, and can get no more of another.

Such a function pairs what it takes by the order it comes in. Where one message of a transaction is taken away - the
transaction was cancelled, passed its deadline, or failed in a node before - the function would pair what it has with
the next transaction. So what happens to the first message of a transaction decides about the others: they are all
given, or none; and a function that holds one part already is told once that the others are lost. No I/O.

A message that was skipped is none of this: a branch that was not taken is the function's business, which may take from
any of its queues. The C++ runtime has the same rules (halves.h).
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dflow_core.errors import MissingError
from dflow_core.executor.pairing.aligner import REMEMBERED

Key = tuple[int, int]


class HalfLostError(MissingError):
    """In the place of a message that will not come, although the function has another of its transaction."""

    def __init__(self, port: int, trans_id: int, why: str) -> None:
        super().__init__(
            f"input {port} gets no message of transaction {trans_id}, which {why}", trans_id=trans_id,
            hint="let go of what you have of it and take the next of each input; it has ended for its caller",
        )


class Comes(enum.Enum):
    """What a message is."""

    DATA = enum.auto()
    SKIP = enum.auto()
    LOST = enum.auto()
    """Cancelled, or failed."""


class Fate(enum.Enum):
    """What becomes of it."""

    GIVE = enum.auto()
    """The function gets it."""
    END = enum.auto()
    """It ends its transaction without the function."""
    DROP = enum.auto()
    """Nothing: another message of its transaction decides, or has decided."""
    TELL = enum.auto()
    """As END; and the function is to be told, for it has another part."""


@dataclass(slots=True)
class _Part:
    trans_ids: Sequence[int]
    seen: set[int] = field(default_factory=set)
    is_given: bool = False
    is_lost: bool = False


class Halves:
    """Keeps account for one function.

    Args:
        ports: Inputs it has.
    """

    def __init__(self, ports: int) -> None:
        self._ports = ports
        self._parts: OrderedDict[Key, _Part] = OrderedDict()

    def __len__(self) -> int:
        return len(self._parts)

    def take(self, port: int, keys: Sequence[Key], comes: Comes) -> Fate:
        """A message was taken.

        Args:
            port: Input it came at.
            keys: Its own, and those of the other members if it is a batch.
            comes: What it is.
        """
        key = keys[0]
        part = self._parts.pop(key, None)
        if part is None or port in part.seen:
            part = _Part([trans_id for trans_id, _ in keys])
        part.seen.add(port)
        is_whole = len(part.seen) == self._ports
        if not is_whole:
            self._parts[key] = part
            if len(self._parts) > REMEMBERED:
                self._parts.popitem(last=False)
        if part.is_lost:
            return Fate.DROP
        if comes is Comes.LOST:
            part.is_lost = True
            return Fate.TELL if part.is_given else Fate.END
        if comes is Comes.DATA:
            part.is_given = True
            return Fate.GIVE
        return Fate.END if is_whole and not part.is_given else Fate.DROP

    def awaits(self, key: Key) -> bool:
        """Whether the function has a part of a transaction and may get another."""
        part = self._parts.get(key)
        return part is not None and part.is_given and not part.is_lost

    def lose(self, port: int, is_cancelled: Callable[[int], bool]) -> list[Key]:
        """Transactions that were cancelled while the function has a part of them and lacks that of an input; once each.

        Args:
            port: The input.
            is_cancelled: Whether a transaction was cancelled.
        """
        lost = [
            key for key, part in self._parts.items()
            if part.is_given and not part.is_lost and port not in part.seen and all(map(is_cancelled, part.trans_ids))
        ]
        for key in lost:
            self._parts[key].is_lost = True
        return lost

    def clear(self) -> None:
        """Forget everything."""
        self._parts.clear()
