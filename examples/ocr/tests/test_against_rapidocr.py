from __future__ import annotations

import numpy as np
import pytest

from dflow_ocr.annotate import write_annotated
from dflow_ocr.pages import read_truth
from dflow_ocr.rivals import build_rapidocr
from dflow_ocr.serial import STAGES
from dflow_ocr.stages import decode
from dflow_ocr.truth import characters_read


def share(texts, page_files):
    truth = read_truth(page_files[0].parent)
    counts = [characters_read(lines, truth[path.name]) for lines, path in zip(texts, page_files, strict=True)]
    return sum(read for read, _ in counts) / sum(total for _, total in counts)


@pytest.fixture(scope="module")
def theirs(page_files):
    rapidocr = build_rapidocr("openvino-f32")
    return [rapidocr(str(path)) for path in page_files]


@pytest.fixture(scope="module")
def ours(ocr, page_files):
    return [ocr.read_page(path) for path in page_files]


def test_text_and_boxes_are_identical_with_rapidocrs_batches(theirs, ours):
    assert [page.texts for page in ours] == [list(page.txts) for page in theirs]
    for mine, their in zip(ours, theirs, strict=True):
        assert np.array_equal(mine.boxes, their.boxes)
        assert [line.score for line in mine.lines] == pytest.approx(list(their.scores), abs=2e-5)


def test_buckets_read_as_much_true_text(ocr, page_files, ours):
    pages = ocr.read_pages_in_buckets(page_files)
    read = share([page.texts for page in pages], page_files)
    assert read >= 0.98
    assert read >= share([page.texts for page in ours], page_files) - 0.002


def test_every_stage_was_timed(ocr, ours):
    assert len(ours) > 0
    assert set(ocr.times.seconds) == set(STAGES)
    assert ocr.times.total() == pytest.approx(sum(ocr.times.seconds.values()))


def test_a_blank_page_is_read_in_both_ways(ocr):
    blank = b"P6 800 800 255\n" + b"\xff" * (800 * 800 * 3)
    assert ocr.read_page(blank).texts == []
    assert [page.texts for page in ocr.read_pages_in_buckets([blank, blank])] == [[], []]


def test_annotated_page(page_files, ours, tmp_path):
    page = decode(page_files[0])
    page.flags.writeable = False
    picture = decode(write_annotated(page, ours[0], tmp_path / "a.png"))
    assert picture.shape == (page.shape[0], page.shape[1] * 2, 3)
    assert (picture[:, : page.shape[1]] != page).any()
