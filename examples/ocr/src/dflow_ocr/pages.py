"""Page-like images from a seed: the same seed gives the same pages, with the text that they carry."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter

from dflow_ocr.layouts import TextLine, draw_layout
from dflow_ocr.truth import true_text_read

__all__ = ["TRUTH_FILE", "Page", "make_page", "read_truth", "true_text_read", "write_pages"]

TRUTH_FILE: Final = "truth.json"
LINES: Final = (4, 49)
_MOST_LIKELY: Final = 33
_PAPERS: Final = ((255, 255, 255), (252, 250, 242), (246, 246, 250), (250, 243, 230), (240, 246, 240))
_INKS: Final = ((0, 0, 0), (25, 25, 40), (40, 30, 20), (20, 30, 80), (120, 115, 110))
_GRAINS: Final = (0.0, 2.0, 4.0, 7.0, 12.0)


@dataclass(frozen=True)
class Page:
    """A generated page: its picture and what is written on it."""

    name: str
    layout: str
    image: Image.Image
    lines: tuple[str, ...]


def make_page(seed: int, index: int, width: int = 1280, height: int = 960) -> Page:
    """Make one page.

    Args:
        seed: The seed of the whole set.
        index: The number of the page in the set; every page has a random source of its own.
        width: The picture's width in pixels.
        height: The picture's height in pixels.

    Returns:
        The page.
    """
    rng = random.Random(f"{seed}/{index}")
    count = round(rng.triangular(LINES[0], LINES[1], _MOST_LIKELY))
    layout, lines = draw_layout(rng, width, height, count)
    image = _wear(rng, _print(rng, lines, width, height))
    return Page(f"page-{index:03d}", layout, image, tuple(line.text for line in lines))


def write_pages(folder: Path, count: int, seed: int) -> list[Path]:
    """Write a set of pages as PNG files, with the text they carry in a JSON file beside them.

    Args:
        folder: Where to write; made when it is not there.
        count: How many pages.
        seed: The seed of the set.

    Returns:
        The picture files, in order.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    truth = {}
    for index in range(count):
        page = make_page(seed, index)
        paths.append(folder / f"{page.name}.png")
        # Level 1: the files are read a few times and thrown away, and the level costs most of the writing time.
        page.image.save(paths[-1], compress_level=1)
        truth[paths[-1].name] = {"layout": page.layout, "lines": page.lines}
    (folder / TRUTH_FILE).write_text(json.dumps({"seed": seed, "pages": truth}, indent=1), encoding="utf-8")
    return paths


def read_truth(folder: Path) -> dict[str, list[str]]:
    """Read back what a set of written pages carries.

    Args:
        folder: The folder given to `write_pages`.

    Returns:
        The lines of each page, by file name.
    """
    held = json.loads((folder / TRUTH_FILE).read_text(encoding="utf-8"))
    return {name: list(page["lines"]) for name, page in held["pages"].items()}


def _print(rng: random.Random, lines: list[TextLine], width: int, height: int) -> Image.Image:
    """Draw the lines on paper."""
    image = Image.new("RGB", (width, height), rng.choice(_PAPERS))
    ink = rng.choice(_INKS)
    draw = ImageDraw.Draw(image)
    for line in lines:
        draw.text((line.left, line.top), line.text, font=line.face.load(), fill=ink)
    return image


def _wear(rng: random.Random, image: Image.Image) -> Image.Image:
    """Turn a few pages by a little, blur some, and put grain on most."""
    if rng.random() < 0.2:
        angle = rng.uniform(-0.6, 0.6)
        image = image.rotate(angle, Image.Resampling.BICUBIC, fillcolor=image.getpixel((0, 0)))
    if rng.random() < 0.02:
        image = image.transpose(Image.Transpose.ROTATE_180)
    if rng.random() < 0.3:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 0.9)))
    grain = rng.choice(_GRAINS)
    return _grain(image, grain, rng.randrange(2**32)) if grain else image


def _grain(image: Image.Image, strength: float, seed: int) -> Image.Image:
    """Add the same normal noise to the three colours of each pixel."""
    pixels: npt.NDArray[np.uint8] = np.asarray(image)
    noise = np.random.default_rng(seed).normal(0.0, strength, pixels.shape[:2]).astype(np.float32)
    worn = np.clip(np.rint(pixels + noise[:, :, None]), 0, 255).astype(np.uint8)
    return Image.fromarray(worn, "RGB")
