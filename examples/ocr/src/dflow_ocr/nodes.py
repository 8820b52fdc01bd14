"""The stages as nodes of a graph: Python functions between the models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import dflow_core as df
from dflow_ocr import stages
from dflow_ocr.arrays import Floats, Pixels
from dflow_ocr.recognise import PageText, ReadLine

__all__ = [
    "FoundLines",
    "OpenPage",
    "assemble",
    "assemble_in_order",
    "collect",
    "find_lines",
    "open_page",
    "upright_batches",
    "upright_lines",
]


@dataclass(frozen=True)
class OpenPage:
    """A page on its way to the line finder: the picture worked on, and how it lies to the page as given."""

    image: Pixels
    fit: stages.PageFit


@dataclass(frozen=True)
class FoundLines:
    """The line images of a page in reading order."""

    crops: tuple[Pixels, ...]


@df.pyflow(num_returns=2)
def open_page(source: str | bytes) -> object:
    """Decode a page and prepare it for the detector.

    Args:
        source: Path of the image file, or its bytes.

    Returns:
        The detector's feed (1 x 3 x rows x columns), and the page.
    """
    image, fit = stages.fit_page(stages.decode(Path(source) if isinstance(source, str) else source))
    return stages.det_pre(image), OpenPage(image, fit)


@df.pyflow(num_returns=3)
def find_lines(heat: Floats, page: OpenPage) -> object:
    """Find the lines of a page and cut them out.

    Args:
        heat: The detector's answer.
        page: What `open_page` gave.

    Returns:
        The angle classifier's feed (lines x 3 x 48 x 192; None for a page without lines), the lines, and their boxes
        on the page as given.
    """
    boxes = stages.det_post(heat, (page.image.shape[0], page.image.shape[1]))
    crops = stages.crop_lines(page.image, boxes)
    return stages.cls_pre(crops) if crops else None, FoundLines(tuple(crops)), stages.page_boxes(boxes, page.fit)


@df.pyflow
def upright_lines(odds: Floats | None, lines: FoundLines) -> Iterator[Floats]:
    """Turn the lines that are upside down, and give them one by one, each as wide as its bucket.

    Args:
        odds: The angle classifier's answer, None for a page without lines.
        lines: What `find_lines` gave.

    Yields:
        Recogniser feeds of one line, 3 x 48 x a multiple of 32.
    """
    for crop in _upright(odds, lines):
        yield stages.rec_pre([crop], stages.bucket_width(crop))[0]


@df.pyflow
def upright_batches(odds: Floats | None, lines: FoundLines) -> Iterator[Floats]:
    """Turn the lines that are upside down, and give them in rapidocr's own batches.

    Args:
        odds: The angle classifier's answer, None for a page without lines.
        lines: What `find_lines` gave.

    Yields:
        Recogniser feeds of up to six lines, lines x 3 x 48 x width.
    """
    crops = _upright(odds, lines)
    for batch in stages.page_batches(crops):
        yield stages.rec_pre([crops[index] for index in batch.items], batch.width)


@df.pyflow(gather=True)
def collect(parts: Sequence[ReadLine | list[ReadLine]]) -> list[ReadLine]:
    """Put the lines of a page together again.

    Args:
        parts: Lines, or batches of lines, in the order they were spread out.

    Returns:
        The lines in that order.
    """
    return [line for part in parts for line in (part if isinstance(part, list) else [part])]


@df.pyflow
def assemble(lines: list[ReadLine], boxes: Floats, found: FoundLines) -> PageText:
    """Make the text of a page.

    Args:
        lines: The lines as read, in the order they were read.
        boxes: Boxes of the lines in reading order.
        found: The line images in reading order; their order of reading by batches follows from their widths.

    Returns:
        The text.
    """
    ordered = [ReadLine("", 0.0)] * len(lines)
    order = [index for batch in stages.page_batches(found.crops) for index in batch.items]
    for index, line in zip(order, lines, strict=True):
        ordered[index] = line
    return stages.keep_sure(ordered, boxes)


@df.pyflow
def assemble_in_order(lines: list[ReadLine], boxes: Floats) -> PageText:
    """Make the text of a page whose lines were read in reading order.

    Args:
        lines: The lines as read.
        boxes: Their boxes.

    Returns:
        The text.
    """
    return stages.keep_sure(lines, boxes)


def _upright(odds: Floats | None, lines: FoundLines) -> list[Pixels]:
    if odds is None:
        return []
    return stages.turn(lines.crops, stages.cls_post(odds))
