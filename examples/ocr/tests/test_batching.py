from __future__ import annotations

import numpy as np
import pytest

from dflow_ocr.batching import Batch, BucketBatcher, PageGatherer, page_batches


def crop(width, height=48):
    return np.zeros((height, width, 3), np.uint8)


def test_a_bucket_goes_when_it_is_full():
    batcher = BucketBatcher(size=2)
    assert batcher.add(64, "a") == []
    assert batcher.add(96, "b") == []
    assert batcher.add(64, "c") == [Batch(64, ("a", "c"))]
    assert len(batcher) == 1


def test_flush_gives_the_rest_narrowest_first_and_empties():
    batcher = BucketBatcher(size=3)
    for width, item in ((96, "a"), (32, "b"), (96, "c")):
        batcher.add(width, item)
    assert batcher.flush() == [Batch(32, ("b",)), Batch(96, ("a", "c"))]
    assert batcher.flush() == []
    assert len(batcher) == 0


def test_nothing_waits_longer_than_the_limit():
    batcher = BucketBatcher(size=6, wait=2.0)
    assert batcher.next_due() is None
    batcher.add(32, "a", now=10.0)
    batcher.add(64, "b", now=11.0)
    batcher.add(32, "c", now=11.9)
    assert batcher.next_due() == 12.0
    assert batcher.due(11.99) == []
    assert batcher.due(12.0) == [Batch(32, ("a", "c"))]
    assert batcher.next_due() == 13.0
    # Another item's arrival sends the late ones off as well.
    assert batcher.add(96, "d", now=13.5) == [Batch(64, ("b",))]


def test_the_wait_starts_anew_after_a_full_batch():
    batcher = BucketBatcher(size=2, wait=1.0)
    batcher.add(32, "a", now=0.0)
    assert batcher.add(32, "b", now=0.9) == [Batch(32, ("a", "b"))]
    batcher.add(32, "c", now=1.5)
    assert batcher.next_due() == 2.5


def test_without_a_limit_items_wait_for_flush():
    batcher = BucketBatcher()
    batcher.add(32, "a", now=0.0)
    assert batcher.due(1e9) == []
    assert batcher.next_due() is None


def test_a_wait_of_zero_sends_every_item_alone():
    assert BucketBatcher(wait=0.0).add(32, "a", now=5.0) == [Batch(32, ("a",))]


@pytest.mark.parametrize(("width", "size"), [(32, 6), (320, 4), (640, 2), (672, 1), (1312, 1)])
def test_a_limit_of_columns_makes_batches_of_wide_items_smaller(width, size):
    batcher = BucketBatcher(columns=1280)
    for _ in range(size - 1):
        assert batcher.add(width, "a") == []
    assert batcher.add(width, "b") == [Batch(width, ("a",) * (size - 1) + ("b",))]


def test_repr_shows_what_waits():
    batcher = BucketBatcher(size=3)
    batcher.add(64, "a")
    assert repr(batcher) == "<BucketBatcher of 3, waiting {64: 1}>"


@pytest.mark.parametrize(("size", "wait"), [(0, None), (6, -1.0)])
def test_impossible_limits_are_refused(size, wait):
    with pytest.raises(ValueError, match=r"cannot wait|at least one"):
        BucketBatcher(size, wait)


def test_page_batches_sort_by_width_and_pad_to_the_widest():
    crops = [crop(width) for width in (500, 100, 900, 200, 400, 300, 700)]
    first, last = page_batches(crops)
    assert first == Batch(700, (1, 3, 5, 4, 0, 6))
    assert last == Batch(900, (2,))


def test_page_batches_pad_to_320_at_least():
    assert page_batches([crop(50)]) == [Batch(320, (0,))]


def test_a_page_without_lines_has_no_batches():
    assert page_batches([]) == []


def test_pages_are_gathered_whatever_the_order():
    gatherer = PageGatherer()
    assert gatherer.add("p", 1, "second") is None
    assert gatherer.expect("q", 1) is None
    assert gatherer.expect("p", 2) is None
    assert len(gatherer) == 2
    assert gatherer.add("p", 0, "first") == ["first", "second"]
    assert gatherer.add("q", 0, "only") == ["only"]
    assert len(gatherer) == 0


def test_a_page_without_lines_is_complete_at_once():
    gatherer = PageGatherer()
    assert gatherer.expect("p", 0) == []
    assert len(gatherer) == 0


def test_a_page_whose_lines_came_first_is_complete_when_announced():
    gatherer = PageGatherer()
    gatherer.add("p", 0, "only")
    assert gatherer.expect("p", 1) == ["only"]


def test_twice_is_refused():
    gatherer = PageGatherer()
    gatherer.expect("p", 2)
    gatherer.add("p", 0, "a")
    with pytest.raises(ValueError, match="announced twice"):
        gatherer.expect("p", 2)
    with pytest.raises(ValueError, match="came twice"):
        gatherer.add("p", 0, "a")
