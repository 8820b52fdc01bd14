"""From line images to text: prepare them for the recogniser, read its answer, keep what is sure enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from dflow_ocr.arrays import CENTRED, Floats, Pixels, spread_channels
from dflow_ocr.models import BLANK

__all__ = [
    "HEIGHT",
    "PageText",
    "ReadLine",
    "bucket_width",
    "ctc_decode",
    "keep_sure",
    "line_width",
    "rec_pre",
]

HEIGHT: Final = 48
_BUCKET: Final = 32
_TEXT_SCORE: Final = 0.5


@dataclass(frozen=True)
class ReadLine:
    """The text of one line and how sure it is, 0 to 1."""

    text: str
    score: float


@dataclass(frozen=True)
class PageText:
    """What was read on a page: the sure lines in reading order, each with its box on the page as given."""

    lines: tuple[ReadLine, ...]
    boxes: Floats

    @property
    def texts(self) -> list[str]:
        """The lines' texts."""
        return [line.text for line in self.lines]


def line_width(crop: Pixels) -> int:
    """Give the width of a line image at the recogniser's height.

    Args:
        crop: A line image.

    Returns:
        The width in pixels.
    """
    return math.ceil(float(HEIGHT * (crop.shape[1] / crop.shape[0])))


def bucket_width(crop: Pixels, step: int = _BUCKET) -> int:
    """Give the width to pad a line image to, so that lines of many widths share few shapes.

    Args:
        crop: A line image.
        step: What the width is a multiple of.

    Returns:
        The width in pixels.
    """
    return max(1, math.ceil(line_width(crop) / step)) * step


def rec_pre(crops: Sequence[Pixels], width: int) -> Floats:
    """Prepare line images for the recogniser.

    Args:
        crops: The batch.
        width: The width of every line in the batch; narrower lines are padded with zeros, wider ones squeezed.

    Returns:
        Lines x 3 x 48 x width.
    """
    feed = np.empty((len(crops), 3, HEIGHT, width), np.float32)
    for place, crop in zip(feed, crops, strict=True):
        wide = min(width, line_width(crop))
        spread_channels(np.asarray(cv2.resize(crop, (wide, HEIGHT)), np.uint8), CENTRED, place[:, :, :wide])
        place[:, :, wide:] = 0.0
    return feed


def ctc_decode(logits: Floats, alphabet: Sequence[str]) -> list[ReadLine]:
    """Turn the recogniser's answer into text: the best class of each step, repeats folded into one, blanks dropped.

    Args:
        logits: Lines x steps x classes, as before the softmax.
        alphabet: The character of each class.

    Returns:
        One text and score a line; the score is the mean over the characters kept, 0 without any.
    """
    classes = logits.argmax(axis=2)
    keep = classes != BLANK
    keep[:, 1:] &= classes[:, 1:] != classes[:, :-1]
    lines = []
    for kept, row, steps in zip(keep, classes, logits, strict=True):
        text = "".join(alphabet[index] for index in row[kept].tolist())
        sure = [round(value, 5) for value in _best_odds(steps[kept]).tolist()]
        lines.append(ReadLine(text, round(float(np.mean(sure)), 5) if sure else 0.0))
    return lines


def keep_sure(lines: Sequence[ReadLine], boxes: Floats) -> PageText:
    """Drop the lines that are blank or too unsure.

    Args:
        lines: The lines of a page in reading order.
        boxes: Their boxes.

    Returns:
        The page's text.
    """
    kept = [i for i, line in enumerate(lines) if line.text.strip() and line.score >= _TEXT_SCORE]
    return PageText(tuple(lines[i] for i in kept), boxes[kept])


def _best_odds(logits: Floats) -> Floats:
    """The largest value of each row's softmax; the array is used up."""
    logits -= logits.max(axis=1, keepdims=True)
    return np.float32(1) / np.exp(logits, out=logits).sum(axis=1)
