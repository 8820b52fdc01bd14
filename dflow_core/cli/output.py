"""What a command prints: tables and lines for people, one JSON document for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from pathlib import Path

from rich.console import Console
from rich.table import Table

WIDTH_OF_FILES = 200
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Output:
    """Where a command writes: nothing but the document goes to standard output when JSON is asked for.

    Args:
        as_json: Whether a program reads it.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        # Rich would wrap at 80 columns for a file or a pipe, which breaks grep.
        width = None if sys.stdout.isatty() else WIDTH_OF_FILES
        self.console = Console(file=sys.stdout, highlight=False, width=width)
        self.errors = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def line(self, text: str = "", style: str | None = None) -> None:
        """A line for people."""
        if not self.as_json:
            self.console.print(text, style=style, markup=False)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
        """A table for people; columns whose name ends in `#` hold numbers."""
        if self.as_json:
            return
        if title:
            # As a title of the table it would wrap at the table's width.
            self.line(title, style="bold")
        table = Table(box=None, pad_edge=False)
        for name in columns:
            table.add_column(name.rstrip("#"), justify="right" if name.endswith("#") else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_escape(cell) for cell in row))
        self.console.print(table)

    def document(self, value: object) -> None:
        """The document for programs."""
        if self.as_json:
            json.dump(plain(value), sys.stdout, indent=2, ensure_ascii=False)
            sys.stdout.write("\n")
            sys.stdout.flush()

    def error(self, message: str) -> None:
        """An error for people, on standard error."""
        self.errors.print(f"error: {message}", style="red", markup=False)


def plain(value: object) -> object:
    """A value as JSON can hold it: dataclasses as objects, paths and enum members as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key: plain(item) for key, item in asdict(value).items()}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(value)} bytes"
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return str(value) if isinstance(value, (Path, BaseException)) else repr(value)


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def size(count: float) -> str:
    """Bytes as people read them: `6.0 MiB`."""
    for unit in UNITS:
        if abs(count) < 1024 or unit == UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def seconds(span: float) -> str:
    """A time span as people read it: `12 ms`, `3.4 s`."""
    if span < 1e-3:
        return f"{span * 1e6:.0f} µs"
    return f"{span * 1e3:.1f} ms" if span < 1 else f"{span:.2f} s"


def _escape(cell: object) -> str:
    # Rich reads [words] in square brackets as markup; shapes and fault kinds are written that way.
    return str(cell).replace("[", "\\[")
