"""What a window tells its function to do. Every item that went in leaves by exactly one of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dflow_builtin_udf.items import Item


@dataclass(frozen=True, slots=True)
class Emit:
    """Send a batch.

    Args:
        items: What is in it, oldest first.
        head: The item whose head it inherits: the newest, or the null message that ended it.
        old: How many of the items, from the front, ended with an earlier batch (sliding windows).
        size: How many rows to fill up to with zeros; 0 for no filling.
        is_part: Whether it is one of several batches under the same head, to be closed by `EndParts`.
        times: Start and end time to set; None to inherit.
    """

    items: tuple[Item, ...]
    head: Item
    old: int = 0
    size: int = 0
    is_part: bool = False
    times: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class EndParts:
    """No further batch comes under this item's head."""

    item: Item


@dataclass(frozen=True, slots=True)
class EndOfSequence:
    """Send a null message flagged EOS, and nothing else, under this item's head."""

    item: Item


@dataclass(frozen=True, slots=True)
class Drop:
    """End items without data."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """End an item with an error; always the last instruction."""

    item: Item
    why: str
    hint: str | None = None


Instruction: TypeAlias = Emit | EndParts | EndOfSequence | Drop | Refuse
