"""How people spell tensor names and keys: with and without the port, and with mistakes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def spellings(name: str) -> tuple[str, ...]:
    """The ways a tensor may be called: as given, with port 0 added, with port 0 left out."""
    if name.endswith(":0"):
        return name, name[:-2]
    return (name,) if name.rpartition(":")[2].isdigit() and ":" in name else (name, name + ":0")


def find_name(wanted: str, known: Sequence[str]) -> int:
    """Index of a tensor among known ones, with or without `:0`; -1 if it is none of them."""
    for spelling in spellings(wanted):
        if spelling in known:
            return known.index(spelling)
    return -1


def near(wanted: str, known: Iterable[str]) -> str:
    """A hint: the nearest known names, or all of them."""
    names = sorted(set(known))
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(name) for name in close) + "?"
    return "known: " + (", ".join(names[:20]) + (", ..." if len(names) > 20 else "") or "none")


def split_list(text: str, separators: str = ",;") -> tuple[str, ...]:
    """The parts of a list written in one text, blanks trimmed and empty ones left out."""
    for separator in separators[1:]:
        text = text.replace(separator, separators[0])
    return tuple(part.strip() for part in text.split(separators[0]) if part.strip())
