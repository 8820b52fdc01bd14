"""The serial form: one process takes every page through the stages in turn, and times each stage."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeVar

from dflow_ocr import stages
from dflow_ocr.arrays import Floats, Pixels
from dflow_ocr.batching import COLUMNS, Batch, BucketBatcher, PageGatherer, page_batches
from dflow_ocr.engine import EngineName, load_model
from dflow_ocr.models import find_models, read_alphabet
from dflow_ocr.recmodel import logits_model
from dflow_ocr.recognise import PageText, ReadLine

__all__ = ["STAGES", "Batching", "SerialOcr", "StageTimes", "read_pages"]

STAGES: Final = (
    "decode",
    "det_pre",
    "det",
    "det_post",
    "crop",
    "cls_pre",
    "cls",
    "turn",
    "rec_pre",
    "rec",
    "text",
)
"""The timed stages, in order."""

Batching = Literal["rapidocr", "buckets"]
ResultT = TypeVar("ResultT")


@dataclass
class StageTimes:
    """The time spent in each stage, in seconds, and how often it was called."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def time(self, stage: str, work: Callable[[], ResultT]) -> ResultT:
        """Do some work and book its time.

        Args:
            stage: The stage it belongs to.
            work: The work.

        Returns:
            What the work gave.
        """
        start = time.perf_counter()
        result = work()
        self.seconds[stage] += time.perf_counter() - start
        self.calls[stage] += 1
        return result

    def total(self) -> float:
        """Sum the stages.

        Returns:
            Seconds.
        """
        return sum(self.seconds.values())


@dataclass(frozen=True)
class _Line:
    """A line on its way through the buckets: whose it is, its place there, its image."""

    page: int
    index: int
    crop: Pixels


class SerialOcr:
    """The three models and every stage, in one process."""

    def __init__(self, engine: EngineName = "openvino-f32", threads: int = 1, det_shape: str = "") -> None:
        """Load the models.

        Args:
            engine: The engine and precision.
            threads: How many threads one call of a model uses.
            det_shape: The one shape the detector gets (`usual_shape`); "" is any.
        """
        files = find_models()
        self.times = StageTimes()
        self._det: Final = load_model(files.det, engine, threads, det_shape)
        self._cls: Final = load_model(files.cls, engine, threads)
        self._rec: Final = load_model(logits_model(files.rec), engine, threads)
        self._alphabet: Final = read_alphabet(files.rec)

    def find_lines(self, source: Path | bytes) -> tuple[list[Pixels], Floats]:
        """Take a page from its file to upright line images.

        Args:
            source: The image file or its bytes.

        Returns:
            The line images in reading order, and their boxes on the page.
        """
        timed = self.times.time
        page = timed("decode", lambda: stages.decode(source))
        image, fit = timed("decode", lambda: stages.fit_page(page))
        feed = timed("det_pre", lambda: stages.det_pre(image))
        heat = timed("det", lambda: next(iter(self._det(feed).values())))
        size = (image.shape[0], image.shape[1])
        boxes = timed("det_post", lambda: stages.det_post(heat, size))
        crops = timed("crop", lambda: stages.crop_lines(image, boxes))
        turned = self._angles(crops)
        return timed("turn", lambda: stages.turn(crops, turned)), stages.page_boxes(boxes, fit)

    def read_batch(self, crops: Sequence[Pixels], width: int) -> list[ReadLine]:
        """Read a batch of lines.

        Args:
            crops: Line images.
            width: The width to pad them to.

        Returns:
            Their texts.
        """
        timed = self.times.time
        feed = timed("rec_pre", lambda: stages.rec_pre(crops, width))
        logits = timed("rec", lambda: next(iter(self._rec(feed).values())))
        return timed("text", lambda: stages.ctc_decode(logits, self._alphabet))

    def read_page(self, source: Path | bytes) -> PageText:
        """Read one page with rapidocr's own batches.

        Args:
            source: The image file or its bytes.

        Returns:
            The page's text.
        """
        crops, boxes = self.find_lines(source)
        lines = [ReadLine("", 0.0)] * len(crops)
        for batch in page_batches(crops):
            read = self.read_batch([crops[index] for index in batch.items], batch.width)
            for index, line in zip(batch.items, read, strict=True):
                lines[index] = line
        return self.times.time("text", lambda: stages.keep_sure(lines, boxes))

    def read_pages_in_buckets(self, sources: Iterable[Path | bytes]) -> list[PageText]:
        """Read pages with batches of equal width across pages.

        Args:
            sources: The image files or their bytes.

        Returns:
            The pages' texts, in the order given.
        """
        batcher: BucketBatcher[_Line] = BucketBatcher(columns=COLUMNS)
        gatherer: PageGatherer[int, ReadLine] = PageGatherer()
        boxes: list[Floats] = []
        done: dict[int, PageText] = {}
        for number, source in enumerate(sources):
            crops, place = self.find_lines(source)
            boxes.append(place)
            if gatherer.expect(number, len(crops)) is not None:
                done[number] = PageText((), place)
            for index, crop in enumerate(crops):
                full = batcher.add(stages.bucket_width(crop), _Line(number, index, crop))
                self._read_lines(full, gatherer, boxes, done)
        self._read_lines(batcher.flush(), gatherer, boxes, done)
        return [done[number] for number in range(len(boxes))]

    def _read_lines(
        self,
        batches: list[Batch[_Line]],
        gatherer: PageGatherer[int, ReadLine],
        boxes: list[Floats],
        done: dict[int, PageText],
    ) -> None:
        """Read batches, and close the pages whose last line came."""
        for batch in batches:
            read = self.read_batch([line.crop for line in batch.items], batch.width)
            for line, text in zip(batch.items, read, strict=True):
                lines = gatherer.add(line.page, line.index, text)
                if lines is not None:
                    done[line.page] = stages.keep_sure(lines, boxes[line.page])

    def _angles(self, crops: list[Pixels]) -> list[bool]:
        turned = [False] * len(crops)
        order = stages.by_width(crops) if crops else []
        for start in range(0, len(order), stages.CLS_BATCH):
            chosen = order[start : start + stages.CLS_BATCH]
            for index, value in zip(chosen, self._batch_angles([crops[i] for i in chosen]), strict=True):
                turned[index] = value
        return turned

    def _batch_angles(self, crops: list[Pixels]) -> list[bool]:
        feed = self.times.time("cls_pre", lambda: stages.cls_pre(crops))
        odds = self.times.time("cls", lambda: next(iter(self._cls(feed).values())))
        return stages.cls_post(odds)


def read_pages(ocr: SerialOcr, sources: Sequence[Path | bytes], batching: Batching) -> list[PageText]:
    """Read pages one after the other.

    Args:
        ocr: The loaded models; their times grow.
        sources: The image files or their bytes.
        batching: How lines become batches.

    Returns:
        The pages' texts, in the order given.
    """
    if batching == "buckets":
        return ocr.read_pages_in_buckets(sources)
    return [ocr.read_page(source) for source in sources]
