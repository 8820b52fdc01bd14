"""Where the lines of a generated page go: one function a layout, each giving exactly the lines asked for."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Final

from PIL import ImageFont

from dflow_ocr import corpus

__all__ = ["LAYOUTS", "Face", "Layout", "TextLine", "draw_layout"]

MARGIN: Final = 50
_SIZES: Final = (17, 34)
_PACKAGES: Final = {"roboto": "font_roboto", "serif": "font_source_serif_pro"}
_FILES: Final = {
    ("roboto", "plain"): "Roboto-Regular.ttf",
    ("roboto", "strong"): "Roboto-Bold.ttf",
    ("roboto", "slanted"): "Roboto-Italic.ttf",
    ("serif", "plain"): "SourceSerifPro-Regular.ttf",
    ("serif", "strong"): "SourceSerifPro-Semibold.ttf",
    ("serif", "slanted"): "SourceSerifPro-It.ttf",
}


@dataclass(frozen=True)
class Face:
    """A font family in one cut and size."""

    family: str
    cut: str
    size: int

    def load(self) -> ImageFont.FreeTypeFont:
        """Load the font file.

        Returns:
            The font, from a cache.
        """
        return _load(self.family, self.cut, self.size)

    def width(self, text: str) -> float:
        """Measure a text.

        Args:
            text: One line of text.

        Returns:
            Its width in pixels.
        """
        return self.load().getlength(text)


@dataclass(frozen=True)
class TextLine:
    """One line of text at its place on the page: what a detector should find as one box."""

    text: str
    left: float
    top: float
    face: Face


@dataclass(frozen=True)
class Frame:
    """What a layout has to fill: the page's random source, size, font family and number of lines."""

    rng: random.Random
    width: int
    height: int
    family: str
    lines: int

    def rows(self, count: int, tallest: float = 50.0) -> tuple[float, int]:
        """Choose the row height and font size for a number of rows.

        Args:
            count: How many rows have to fit the page's height.
            tallest: The largest row height to use, so that short pages are not stretched.

        Returns:
            The row height in pixels and the font size.
        """
        height = min((self.height - 2 * MARGIN) / max(count, 1), self.rng.uniform(34.0, tallest))
        return height, max(_SIZES[0], min(_SIZES[1], int(height * 0.66)))


Layout = Callable[[Frame], list[TextLine]]


@lru_cache(maxsize=256)
def _load(family: str, cut: str, size: int) -> ImageFont.FreeTypeFont:
    path = Path(str(import_module(_PACKAGES[family]).__file__)).parent / "files" / _FILES[family, cut]
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def _prose(rng: random.Random, face: Face, width: float) -> Iterator[str]:
    """Fill lines of a width with running text, without end."""
    line: list[str] = []
    while True:
        for word in corpus.sentence(rng):
            if line and face.width(" ".join([*line, word])) > width:
                yield " ".join(line)
                line = []
            line.append(word)
        if line and rng.random() < 0.15:
            yield " ".join(line)
            line = []


def column(frame: Frame) -> list[TextLine]:
    """One column of prose under a heading.

    Args:
        frame: What to fill.

    Returns:
        The lines.
    """
    row, size = frame.rows(frame.lines + 1)
    width = frame.rng.uniform(0.35, 0.58) * (frame.width - 2 * MARGIN)
    face = Face(frame.family, "plain", size)
    lines = [TextLine(corpus.heading(frame.rng), MARGIN, MARGIN, Face(frame.family, "strong", size + 8))]
    for number, text in zip(range(frame.lines - 1), _prose(frame.rng, face, width), strict=False):
        lines.append(TextLine(text, MARGIN, MARGIN + row * (number + 1.6), face))
    return lines


def two_columns(frame: Frame) -> list[TextLine]:
    """Two columns of prose.

    Args:
        frame: What to fill.

    Returns:
        The lines.
    """
    first = (frame.lines + 1) // 2
    row, size = frame.rows(first)
    gap = 60.0
    width = frame.rng.uniform(0.65, 1.0) * (frame.width - 2 * MARGIN - gap) / 2
    face = Face(frame.family, "plain", size)
    text = _prose(frame.rng, face, width)
    places = [(MARGIN + (width + gap) * (n >= first), MARGIN + row * (n % first)) for n in range(frame.lines)]
    return [TextLine(next(text), left, top, face) for left, top in places]


def table(frame: Frame) -> list[TextLine]:
    """A bill: rows of article, date, person and amount, each cell a line of its own.

    Args:
        frame: What to fill.

    Returns:
        The cells.
    """
    makers = (corpus.item, corpus.date, corpus.name, corpus.amount)
    step = (frame.width - 2 * MARGIN) / len(makers)
    row, size = frame.rows(-(-frame.lines // len(makers)))
    head = Face(frame.family, "strong", size)
    titles = ("Article", "Date", "Customer", "Amount")
    lines = []
    for number in range(frame.lines):
        line, cell = divmod(number, len(makers))
        text = titles[cell] if line == 0 else makers[cell](frame.rng)
        face = head if line == 0 else Face(frame.family, "plain", size)
        lines.append(TextLine(text, MARGIN + step * cell, MARGIN + row * line, face))
    return lines


def letter(frame: Frame) -> list[TextLine]:
    """A letter: sender, date, text, closing.

    Args:
        frame: What to fill.

    Returns:
        The lines.
    """
    rng = frame.rng
    row, size = frame.rows(frame.lines + 2)
    face = Face(frame.family, "plain", size)
    slanted = Face(frame.family, "slanted", size)
    right = frame.width * 0.66
    lines = [
        TextLine(corpus.name(rng), right, MARGIN, face),
        TextLine(corpus.date(rng), right, MARGIN + row, slanted),
        TextLine(f"Dear {corpus.name(rng)},", MARGIN, MARGIN + row * 2.3, face),
    ]
    body = _prose(rng, face, rng.uniform(0.35, 0.55) * (frame.width - 2 * MARGIN))
    lines += [TextLine(next(body), MARGIN, MARGIN + row * (n + 3.5), face) for n in range(frame.lines - 4)]
    lines.append(TextLine(corpus.name(rng), MARGIN, MARGIN + row * (frame.lines + 0.3), slanted))
    return lines


def listing(frame: Frame) -> list[TextLine]:
    """Numbered items under headings.

    Args:
        frame: What to fill.

    Returns:
        The lines.
    """
    rng = frame.rng
    row, size = frame.rows(frame.lines)
    face = Face(frame.family, "plain", size)
    room = frame.width - 3 * MARGIN
    lines = []
    number = 0
    for index in range(frame.lines):
        top = MARGIN + row * index
        if index == 0 or (number > 3 and rng.random() < 0.25):
            lines.append(TextLine(corpus.heading(rng), MARGIN, top, Face(frame.family, "strong", size)))
            number = 0
            continue
        number += 1
        width = rng.uniform(0.15, 0.5) * room
        text = f"{number}. {next(_prose(rng, face, width))}"
        lines.append(TextLine(text, 1.6 * MARGIN, top, face))
    return lines


LAYOUTS: Final[dict[str, tuple[Layout, range]]] = {
    "column": (column, range(4, 31)),
    "two_columns": (two_columns, range(12, 50)),
    "table": (table, range(8, 50)),
    "letter": (letter, range(5, 30)),
    "listing": (listing, range(4, 31)),
}
"""The layouts by name, each with the numbers of lines that it can hold in a legible size."""


def draw_layout(rng: random.Random, width: int, height: int, lines: int) -> tuple[str, list[TextLine]]:
    """Choose a layout that can hold a number of lines, and fill it.

    Args:
        rng: The page's random source.
        width: The page's width in pixels.
        height: The page's height in pixels.
        lines: How many lines the page has to carry, 4 to 49.

    Returns:
        The layout's name and the lines at their places.
    """
    name = rng.choice([name for name, (_, counts) in LAYOUTS.items() if lines in counts])
    frame = Frame(rng, width, height, rng.choice(sorted(_PACKAGES)), lines)
    return name, LAYOUTS[name][0](frame)
