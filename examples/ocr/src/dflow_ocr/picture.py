"""A picture of a graph: nodes in columns by how far they are from the input, and the streams between them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

import dflow_core as df

__all__ = ["draw_graph"]

_BOX: Final = (150, 54)
_GAP: Final = (56, 34)
_MARGIN: Final = 30
_COLOURS: Final = {"data": (230, 238, 250), "graph": (255, 236, 209), "func": (226, 245, 226)}
_INK: Final = (40, 44, 52)

Place = tuple[int, int]


def draw_graph(graph: df.FlowGraph, target: Path) -> Path:
    """Draw a graph as a PNG file: inputs blue, models orange, functions green.

    Args:
        graph: The graph.
        target: The file to write.

    Returns:
        The file written.
    """
    places = _places(graph)
    width = max(x for x, _ in places.values()) + _BOX[0] + _MARGIN
    height = max(y for _, y in places.values()) + _BOX[1] + _MARGIN
    image = Image.new("RGB", (width, height), (255, 255, 255))
    pen = ImageDraw.Draw(image)
    for node in graph.nodes:
        for source in node.sources:
            if source is not None:
                producer = source.node.name if isinstance(source, df.FlowOutput) else source.name
                _arrow(pen, places[producer], places[node.name])
    for data in graph.inputs:
        _box(pen, places[data.name], data.name, "input", "data")
    for node in graph.nodes:
        kind = node.point.kind if node.point is not None else "func"
        count = node.options.instances
        what = {"graph": "model"}.get(kind, "function") + (f", {count} instances" if count > 1 else "")
        _box(pen, places[node.name], node.name, what, kind)
    image.save(target)
    return target


def _places(graph: df.FlowGraph) -> dict[str, Place]:
    """Upper left corner of each box."""
    column = {data.name: 0 for data in graph.inputs}
    for node in graph.nodes:  # producers come before consumers
        names = [s.node.name if isinstance(s, df.FlowOutput) else s.name for s in node.sources if s is not None]
        column[node.name] = 1 + max((column[name] for name in names), default=0)
    rows: dict[int, int] = defaultdict(int)
    places = {}
    for name, number in column.items():
        x = _MARGIN + number * (_BOX[0] + _GAP[0])
        places[name] = (x, _MARGIN + rows[number] * (_BOX[1] + _GAP[1]) + (number % 2) * 24)
        rows[number] += 1
    return places


def _box(pen: ImageDraw.ImageDraw, place: Place, name: str, what: str, kind: str) -> None:
    x, y = place
    fill = _COLOURS.get(kind, _COLOURS["func"])
    pen.rounded_rectangle((x, y, x + _BOX[0], y + _BOX[1]), 8, fill=fill, outline=_INK)
    pen.text((x + 10, y + 8), name, _INK, font=ImageFont.load_default(15))
    pen.text((x + 10, y + 30), what, (110, 114, 122), font=ImageFont.load_default(12))


def _arrow(pen: ImageDraw.ImageDraw, start: Place, end: Place) -> None:
    x0, y0 = start[0] + _BOX[0], start[1] + _BOX[1] // 2
    x1, y1 = end[0], end[1] + _BOX[1] // 2
    pen.line((x0, y0, x1, y1), fill=(150, 154, 162), width=2)
    pen.polygon([(x1, y1), (x1 - 9, y1 - 5), (x1 - 9, y1 + 5)], fill=(150, 154, 162))
