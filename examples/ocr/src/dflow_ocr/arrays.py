"""The array types that the stages pass on, and the one way pixels become model input."""

from __future__ import annotations

from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

__all__ = ["CENTRED", "CENTRED_DOUBLE", "Floats", "Ints", "Pixels", "spread_channels"]

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

_LEVELS: Final = np.arange(256, dtype=np.uint8).astype(np.float32)

CENTRED: Final[Floats] = (_LEVELS / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
"""For each pixel value its place in -1 to 1, computed in float32 (the angle classifier and the recogniser)."""

CENTRED_DOUBLE: Final[Floats] = (((_LEVELS * np.float32(1 / 255)).astype(np.float64) - 0.5) / 0.5).astype(np.float32)
"""The same for the detector, whose reference works in float64 and rounds at the end."""


def spread_channels(pixels: Pixels, levels: Floats, out: npt.NDArray[Any]) -> None:
    """Turn interleaved pixels into separate float channels in one pass.

    A pixel has only 256 values, so the whole normalisation is a table of 256 floats: exact, and the float image is
    written once, straight into the model's input.

    Args:
        pixels: Rows x columns x 3; may be read-only.
        levels: The float for each pixel value.
        out: 3 x rows x columns float32 to fill; each row has to be contiguous.
    """
    for channel, plane in enumerate(cv2.split(pixels)):
        out[channel] = cv2.LUT(plane, levels)
