"""From boxes to upright line images: cut them out, prepare them for the angle classifier, turn them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import cv2
import numpy as np

from dflow_ocr.arrays import CENTRED, Floats, Pixels, spread_channels

__all__ = ["CLS_BATCH", "by_width", "cls_post", "cls_pre", "crop_lines", "turn"]

CLS_BATCH: Final = 6
_CLS_SHAPE: Final = (48, 192)
_TURNED: Final = 1
_SURE: Final = 0.9
_TALL: Final = 1.5


def crop_lines(image: Pixels, boxes: Floats) -> list[Pixels]:
    """Cut the boxes out of a page.

    Args:
        image: The picture worked on.
        boxes: Boxes x 4 corners x (x, y), whole numbers.

    Returns:
        One image a box, flattened where the box is turned, laid on its side where it is tall; none is a view of
        the page.
    """
    return [_crop(image, box) for box in boxes]


def by_width(crops: Sequence[Pixels]) -> list[int]:
    """Order line images from the narrowest to the widest for their height.

    Args:
        crops: Line images.

    Returns:
        Their positions, in that order.
    """
    # The default sort of numpy, as in rapidocr: another one may order equal ratios, and so fill batches, otherwise.
    return [int(index) for index in np.argsort(np.array([crop.shape[1] / crop.shape[0] for crop in crops]))]


def cls_pre(crops: Sequence[Pixels]) -> Floats:
    """Prepare line images for the angle classifier.

    Args:
        crops: Up to a batch of line images.

    Returns:
        Lines x 3 x 48 x 192.
    """
    height, width = _CLS_SHAPE
    feed = np.zeros((len(crops), 3, height, width), np.float32)
    for place, crop in zip(feed, crops, strict=True):
        wide = min(width, math.ceil(height * (crop.shape[1] / crop.shape[0])))
        spread_channels(np.asarray(cv2.resize(crop, (wide, height)), np.uint8), CENTRED, place[:, :, :wide])
    return feed


def cls_post(odds: Floats) -> list[bool]:
    """Tell from the classifier's answer which lines are upside down.

    Args:
        odds: Lines x 2 (upright, upside down).

    Returns:
        For each line whether to turn it.
    """
    turned = (odds.argmax(axis=1) == _TURNED) & (odds[:, _TURNED] > np.float32(_SURE))
    return [bool(value) for value in turned]


def turn(crops: Sequence[Pixels], turned: Sequence[bool]) -> list[Pixels]:
    """Turn the lines that are upside down.

    Args:
        crops: Line images.
        turned: For each line whether to turn it.

    Returns:
        The line images, upright.
    """
    pairs = zip(crops, turned, strict=True)
    return [np.asarray(cv2.rotate(c, cv2.ROTATE_180), np.uint8) if t else c for c, t in pairs]


def _crop(image: Pixels, box: Floats) -> Pixels:
    width = int(max(np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[2] - box[3])))
    height = int(max(np.linalg.norm(box[0] - box[3]), np.linalg.norm(box[1] - box[2])))
    left, top = (int(value) for value in box[0])
    upright = [[left, top], [left + width, top], [left + width, top + height], [left, top + height]]
    if np.array_equal(box, upright):
        # The warp of an upright box only shifts by whole pixels, so a copy gives the same pixels for far less.
        line = image[top : top + height, left : left + width]
    else:
        corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        matrix = cv2.getPerspectiveTransform(box, corners)
        size = (width, height)
        warped = cv2.warpPerspective(image, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        line = np.asarray(warped, np.uint8)
    return np.array(np.rot90(line) if height / width >= _TALL else line, np.uint8, order="C")
