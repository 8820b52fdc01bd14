from __future__ import annotations

import json
import random
import statistics

import numpy as np
import pytest

from dflow_ocr.layouts import LAYOUTS, draw_layout
from dflow_ocr.pages import LINES, TRUTH_FILE, make_page, read_truth, true_text_read, write_pages


def test_same_seed_same_page():
    one, other = make_page(3, 5), make_page(3, 5)
    assert one.lines == other.lines
    assert np.array_equal(np.asarray(one.image), np.asarray(other.image))


def test_a_page_does_not_depend_on_the_pages_before_it():
    for index in range(3):
        make_page(3, index)
    assert make_page(3, 5).lines == make_page(3, 5).lines


@pytest.mark.parametrize(("seed", "index"), [(4, 5), (3, 6)])
def test_other_seed_or_number_other_page(seed, index):
    assert make_page(3, 5).lines != make_page(seed, index).lines


def test_line_counts_and_layouts():
    pages = [make_page(11, index) for index in range(60)]
    counts = [len(page.lines) for page in pages]
    assert min(counts) >= LINES[0]
    assert max(counts) <= LINES[1]
    assert 25 <= statistics.mean(counts) <= 31
    assert {page.layout for page in pages} == set(LAYOUTS)
    assert all(page.image.size == (1280, 960) for page in pages)


@pytest.mark.parametrize("count", [4, 12, 29, 49])
def test_a_layout_gives_the_lines_asked_for_inside_the_page(count):
    for seed in range(8):
        _, lines = draw_layout(random.Random(seed), 1280, 960, count)
        assert len(lines) == count
        assert all(line.text.strip() == line.text != "" for line in lines)
        assert all(line.left + line.face.width(line.text) < 1280 for line in lines)
        assert all(line.top + line.face.size < 960 for line in lines)


def test_written_pages_and_truth(tmp_path):
    paths = write_pages(tmp_path / "new", 2, 9)
    assert [path.name for path in paths] == ["page-000.png", "page-001.png"]
    truth = read_truth(tmp_path / "new")
    assert truth["page-001.png"] == list(make_page(9, 1).lines)
    assert json.loads((tmp_path / "new" / TRUTH_FILE).read_text(encoding="utf-8"))["seed"] == 9


@pytest.mark.parametrize(
    ("read", "truth", "share"),
    [
        (["abcd", "ef"], ["ef", "abcd"], 1.0),
        ([], ["abcd"], 0.0),
        ([], [], 1.0),
        (["abcd"], ["abcd", "wxyz"], 0.5),
        (["abcd"], ["abcd", "abcd"], 0.5),
        (["abxd"], ["abcd"], 0.75),
        (["abcdabcd"], ["abcd"], 2 / 3),
    ],
)
def test_true_text_read(read, truth, share):
    assert true_text_read(read, truth) == pytest.approx(share)
