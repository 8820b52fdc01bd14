"""The page with the boxes and the text that was read, for people to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import cv2
import numpy as np

from dflow_ocr.arrays import Pixels
from dflow_ocr.recognise import PageText

__all__ = ["annotate", "write_annotated"]

_SURE: Final = (60, 140, 40)
_UNSURE: Final = (30, 90, 220)
_DOUBT: Final = 0.9
_FONT: Final = cv2.FONT_HERSHEY_SIMPLEX
_LEAST_SCALE: Final = 0.3
_BASE_HEIGHT: Final = 30.0


def annotate(page: Pixels, read: PageText) -> Pixels:
    """Draw boxes on a page, and what was read beside it.

    Args:
        page: The page as decoded; may be read-only and is left as it is.
        read: What was read on it.

    Returns:
        The page with boxes, and to its right as much paper again with each text at the height of its box. Lines
        whose score is below 0.9 are orange, the others green.
    """
    rows, columns = page.shape[:2]
    canvas = np.full((rows, columns * 2, 3), 255, np.uint8)
    canvas[:, :columns] = page
    for line, box in zip(read.lines, read.boxes, strict=True):
        colour = _SURE if line.score >= _DOUBT else _UNSURE
        cv2.polylines(canvas, [np.rint(box).astype(np.int32)], True, colour, 1, cv2.LINE_AA)
        left, bottom = float(box[3, 0]), float(box[3, 1])
        room = float(np.linalg.norm(box[1] - box[0]))
        height = float(np.linalg.norm(box[3] - box[0]))
        # OpenCV's font knows ASCII only; it draws a question mark for anything else.
        text = line.text.encode("ascii", "replace").decode("ascii")
        (width, _), _ = cv2.getTextSize(text, _FONT, 1.0, 1)
        scale = max(_LEAST_SCALE, min(height / _BASE_HEIGHT, room / max(width, 1)))
        place = (columns + int(left), int(bottom - height * 0.25))
        cv2.putText(canvas, text, place, _FONT, scale, colour, 1, cv2.LINE_AA)
    return canvas


def write_annotated(page: Pixels, read: PageText, target: Path) -> Path:
    """Write an annotated page as a PNG file.

    Args:
        page: The page as decoded.
        read: What was read on it.
        target: The file to write.

    Returns:
        The file written.

    Raises:
        OSError: The file could not be written.
    """
    done, data = cv2.imencode(".png", annotate(page, read), [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not done:
        raise OSError(f"OpenCV could not encode {target.name}")
    target.write_bytes(data.tobytes())
    return target
