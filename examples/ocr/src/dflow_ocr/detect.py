"""From a page file to boxes around its lines: decode, fit, prepare for the detector, read its answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from dflow_ocr.arrays import CENTRED_DOUBLE, Floats, Pixels, spread_channels
from dflow_ocr.errors import PageUnreadableError

__all__ = ["PageFit", "decode", "det_post", "det_pre", "fit_page", "page_boxes", "reading_order", "usual_shape"]

_GRID: Final = 32
_SHORT_SIDE: Final = 736
_SIDES: Final = (30, 2000)
_WIDEST: Final = 8.0
_LOWEST: Final = 30

_THRESHOLD: Final = 0.3
_BOX_SCORE: Final = 0.5
_CANDIDATES: Final = 1000
_UNCLIP: Final = 1.6
_SMALLEST: Final = 3
_SAME_ROW: Final = 10


@dataclass(frozen=True)
class PageFit:
    """How the picture worked on lies to the page as given."""

    height: int
    width: int
    scale_y: float = 1.0
    scale_x: float = 1.0
    top: int = 0


def decode(source: Path | bytes) -> Pixels:
    """Decode an image file.

    Args:
        source: The file, or its bytes.

    Returns:
        Rows x columns x 3 in OpenCV's order (blue, green, red); grey and palette images are turned into colour.

    Raises:
        PageUnreadableError: The bytes are no image.
    """
    data = source if isinstance(source, bytes) else source.read_bytes()
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    if image is None:
        name = "these bytes" if isinstance(source, bytes) else source.name
        raise PageUnreadableError(f"OpenCV cannot decode {name} as an image")
    return np.asarray(image, np.uint8)


def fit_page(image: Pixels) -> tuple[Pixels, PageFit]:
    """Bring a page within the sizes that rapidocr works on: sides of 30 to 2000, not much wider than high.

    Args:
        image: The page as decoded.

    Returns:
        The picture to work on (the page itself when it fits) and how it lies to the page.
    """
    height, width = image.shape[:2]
    if max(image.shape[:2]) > _SIDES[1]:
        image = _resize(image, _SIDES[1] / max(image.shape[:2]))
    if min(image.shape[:2]) < _SIDES[0]:
        image = _resize(image, _SIDES[0] / min(image.shape[:2]))
    rows, columns = image.shape[:2]
    top = 0
    if rows <= _LOWEST or columns / rows > _WIDEST:
        top = abs(max(int(columns / _WIDEST), _LOWEST) * 2 - rows) // 2
        image = np.asarray(cv2.copyMakeBorder(image, top, top, 0, 0, cv2.BORDER_CONSTANT, value=(0, 0, 0)), np.uint8)
    return image, PageFit(height, width, height / rows, width / columns, top)


def page_boxes(boxes: Floats, fit: PageFit) -> Floats:
    """Move boxes from the picture worked on to the page as given.

    Args:
        boxes: Boxes x 4 corners x (x, y).
        fit: What `fit_page` gave.

    Returns:
        The boxes, inside the page.
    """
    moved = (boxes - _pair(0, fit.top)) * _pair(fit.scale_x, fit.scale_y)
    return np.asarray(np.clip(moved, 0, _pair(fit.width, fit.height)), np.float32)


def det_pre(image: Pixels) -> Floats:
    """Prepare a picture for the detector.

    Args:
        image: The picture worked on.

    Returns:
        1 x 3 x height x width: short side at least 736, both sides multiples of 32, values in -1 to 1.
    """
    rows, columns = image.shape[:2]
    ratio = max(1.0, _SHORT_SIDE / min(rows, columns))
    target = (_grid(columns * ratio), _grid(rows * ratio))
    if target != (columns, rows):
        image = np.asarray(cv2.resize(image, target), np.uint8)
    feed = np.empty((1, 3, target[1], target[0]), np.float32)
    spread_channels(image, CENTRED_DOUBLE, feed[0])
    return feed


def usual_shape(pages: Sequence[Path]) -> str:
    """Tell which shape the detector will see most often.

    Args:
        pages: Image files.

    Returns:
        The shape of the feed of the first page, as a node's `fixed_shapes` has it; "" where it cannot be read.
    """
    try:
        image, _ = fit_page(decode(pages[0]))
    except (PageUnreadableError, OSError):
        return ""
    return ",".join(map(str, det_pre(image).shape))


def det_post(heat: Floats, size: tuple[int, int]) -> Floats:
    """Turn the detector's answer into boxes in reading order.

    Args:
        heat: 1 x 1 x height x width, how likely each place is text.
        size: Rows and columns of the picture worked on.

    Returns:
        Boxes x 4 corners (upper left first, clockwise) x (x, y); no rows when no text was found.
    """
    odds = heat[0, 0]
    text = (odds > np.float32(_THRESHOLD)).astype(np.uint8)
    text = np.asarray(cv2.dilate(text, np.ones((2, 2), np.uint8)), np.uint8)
    contours, _ = cv2.findContours(text, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = [_box(np.asarray(contour), odds, size) for contour in contours[:_CANDIDATES]]
    boxes = [box for box in found if box is not None]
    return reading_order(np.array(boxes, np.float32).reshape(-1, 4, 2))


def reading_order(boxes: Floats) -> Floats:
    """Sort boxes by row, and by column within a row; a row ends where the next box starts 10 pixels lower.

    Args:
        boxes: Boxes x 4 corners x (x, y).

    Returns:
        The boxes sorted.
    """
    by_top = boxes[np.argsort(boxes[:, 0, 1], kind="stable")]
    row = np.cumsum(np.diff(by_top[:, 0, 1], prepend=by_top[:1, 0, 1]) >= _SAME_ROW)
    return np.asarray(by_top[np.lexsort((by_top[:, 0, 0], row))], np.float32)


def _pair(x: float, y: float) -> Floats:
    return np.array([x, y], np.float32)


def _grid(side: float) -> int:
    return round(int(side) / _GRID) * _GRID


def _resize(image: Pixels, ratio: float) -> Pixels:
    """Scale a picture to sides on the grid."""
    rows, columns = image.shape[:2]
    target = (_grid(columns * ratio), _grid(rows * ratio))
    if min(target) == 0:
        raise PageUnreadableError(f"A page of {columns} x {rows} pixels is too narrow to be read")
    return np.asarray(cv2.resize(image, target), np.uint8)


def _box(contour: Floats, odds: Floats, size: tuple[int, int]) -> Floats | None:
    """Make the box of one contour, or None where it is too small or too unlikely to be text."""
    corners, side = _rectangle(contour)
    if side < _SMALLEST or _score(odds, corners) < _BOX_SCORE:
        return None
    corners, side = _rectangle(_unclip(corners))
    if side < _SMALLEST + 2:
        return None
    rows, columns = size
    # Divide first and multiply then: the other way round a few corners fall on the other side of a half pixel.
    scaled = np.round(corners / _pair(odds.shape[1], odds.shape[0]) * _pair(columns, rows))
    box = _clockwise(np.clip(scaled, 0, _pair(columns - 1, rows - 1)))
    if min(int(np.linalg.norm(box[0] - box[1])), int(np.linalg.norm(box[0] - box[3]))) <= _SMALLEST:
        return None
    return box


def _rectangle(points: Floats) -> tuple[Floats, float]:
    """Give the smallest turned rectangle around points, and its shorter side."""
    rectangle = cv2.minAreaRect(points)
    return _clockwise(np.asarray(cv2.boxPoints(rectangle), np.float32)), min(rectangle[1])


def _clockwise(corners: Floats) -> Floats:
    """Order four corners: upper left, upper right, lower right, lower left."""
    left_first = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = left_first[:2], left_first[2:]
    upper_left, lower_left = left if left[1, 1] > left[0, 1] else left[::-1]
    upper_right, lower_right = right if right[1, 1] > right[0, 1] else right[::-1]
    return np.array([upper_left, upper_right, lower_right, lower_left], np.float32)


def _score(odds: Floats, corners: Floats) -> float:
    """Give the mean odds inside a box."""
    limit = np.array(odds.shape[::-1]) - 1
    low = np.clip(np.floor(corners.min(axis=0)).astype(np.int32), 0, limit)
    high = np.clip(np.ceil(corners.max(axis=0)).astype(np.int32), 0, limit)
    inside = np.zeros((high[1] - low[1] + 1, high[0] - low[0] + 1), np.uint8)
    cv2.fillPoly(inside, [(corners - low).astype(np.int32)], (1,))
    return float(cv2.mean(odds[low[1] : high[1] + 1, low[0] : high[0] + 1], inside)[0])


def _unclip(corners: Floats) -> Floats:
    """Grow a box by a distance that depends on its area and girth; the detector's boxes are shrunk lines."""
    import pyclipper

    x, y = corners.astype(np.float64).T
    area = abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2
    girth = sum(math.hypot(a, b) for a, b in zip(np.roll(x, -1) - x, np.roll(y, -1) - y, strict=True))
    grower = pyclipper.PyclipperOffset()
    grower.AddPath(corners, pyclipper.JT_ROUND, pyclipper.ET_CLOSEDPOLYGON)
    grown = grower.Execute(area * _UNCLIP / girth)
    return np.array([point for path in grown for point in path], np.float32)
