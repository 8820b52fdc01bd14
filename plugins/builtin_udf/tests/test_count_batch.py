"""CountBatch: runtime semantics, section 16, and what we do differently."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.errors import OptionError, UsageError
from dflow_core.message import DataFlag, Flag, TensorDesc
from dflow_core.testing.func_harness import FuncHarness, Sent
from dflow_core.types import DataType, Tensor

MakeHarness = Callable[..., FuncHarness]


def values(sent: list[Sent]) -> list[object]:
    """Data of the batches, as lists."""
    return [s.array.tolist() for s in sent if s.kind == "data"]


def member_ids(sent: Sent) -> list[int]:
    """Transactions of the members that are no fillers."""
    return [m.info.trans_id for m in sent.members if not m.info.data_flag & DataFlag.SKIP]


def feed(harness: FuncHarness, *items: float) -> None:
    """Feed scalars."""
    for item in items:
        harness.feed(np.float32(item))


def test_batch_is_sent_when_enough_items_are_there(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=3)
    feed(h, 1, 2)
    assert h.sent == []
    feed(h, 3, 4, 5, 6)
    assert values(h.sent) == [[1, 2, 3], [4, 5, 6]]
    h.check()


def test_batch_has_a_new_first_dimension(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2)
    h.feed(np.zeros((3, 4), np.int16))
    (sent,) = h.feed(np.ones((3, 4), np.int16))
    value = sent.array
    assert value.shape == (2, 3, 4) and value.dtype == np.dtype(np.int16)
    assert not value[0].any() and value[1].all()


def test_head_is_that_of_the_newest_message(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2)
    h.feed(np.zeros(1), start_time=5, end_time=6, route_label=1, step_id=9, user_data=b"old")
    (sent,) = h.feed(np.zeros(1), start_time=7, end_time=8, flags=Flag.SEG, route_label=2, step_id=3, user_data=b"new")
    info = sent.info
    assert (info.trans_id, info.start_time, info.end_time, info.flags) == (2, 7, 8, Flag.SEG)
    assert (info.route_label, info.step_id, info.user_data.rstrip(b"\0")) == (2, 9, b"new")


def test_every_item_is_a_member_with_one_row(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=3)
    feed(h, 1, 2, 3)
    assert [(m.info.trans_id, m.rows) for m in h.sent[0].members] == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize("stride", [0, 3])
def test_stride_of_zero_or_the_whole_batch_tumbles(count_batch: MakeHarness, stride: int) -> None:
    h = count_batch(batch_size=3, slide_stride=stride)
    feed(h, *range(1, 7))
    assert values(h.sent) == [[1, 2, 3], [4, 5, 6]]
    h.check()


def test_sliding_window_keeps_the_rest(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=3, slide_stride=1)
    feed(h, 1, 2, 3, 4, 5)
    assert values(h.sent) == [[1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert [member_ids(s) for s in h.data()] == [[1, 2, 3], [4], [5]]
    assert [s.kind for s in h.sent] == ["data"] * 3
    h.check()


def test_example_of_the_semantics_with_stride_timeout_and_padding(count_batch: MakeHarness) -> None:
    """B=5, s=2, T=300 ms, padding; items 1 to 7 arrive quickly."""
    h = count_batch(batch_size=5, slide_stride=2, timeout=0.3, padding=True)
    feed(h, 1, 2, 3, 4, 5)
    assert values(h.sent) == [[1, 2, 3, 4, 5]]
    h.advance(0.01)
    feed(h, 6, 7)
    assert values(h.sent[1:]) == [[3, 4, 5, 6, 7]]
    assert values(h.advance(0.299)) == []
    assert values(h.advance(0.001)) == [[5, 6, 7, 0, 0]]
    assert values(h.advance(0.299)) == []
    assert values(h.advance(0.001)) == [[7, 0, 0, 0, 0]]
    assert h.advance(10.0) == []
    assert [member_ids(s) for s in h.data()] == [[1, 2, 3, 4, 5], [6, 7], [], []]
    h.check()


def test_example_of_the_semantics_with_timeout(count_batch: MakeHarness) -> None:
    """B=3, T=100 ms, two items: after 100 ms one batch of two. BC-039."""
    h = count_batch(batch_size=3, timeout=0.1)
    feed(h, 1, 2)
    assert h.advance(0.099) == []
    sent = h.advance(0.001)
    assert values(sent) == [[1, 2]]
    assert sent[0].at == pytest.approx(1000.1)
    assert h.advance(1.0) == []
    h.check()


def test_tail_leaves_after_the_timeout_without_further_input(count_batch: MakeHarness) -> None:
    """BC-039: CountBatch(10, 200 ms), three items."""
    h = count_batch(batch_size=10, timeout=0.2)
    feed(h, 1, 2, 3)
    (sent,) = h.advance(60.0)
    assert values([sent]) == [[1, 2, 3]]
    assert sent.at - 1000.0 == pytest.approx(0.2)


def test_timer_starts_with_the_first_item_of_each_batch(count_batch: MakeHarness) -> None:
    """BC-040."""
    h = count_batch(batch_size=8, timeout=0.1)
    feed(h, 1)
    h.advance(0.06)
    feed(h, 2)
    (first,) = h.advance(0.05)
    assert first.at == pytest.approx(1000.1)
    h.advance(0.04)
    feed(h, 3)
    started = h.clock.now
    (second,) = h.advance(1.0)
    assert second.at - started == pytest.approx(0.1)


def test_timer_does_not_run_on_from_a_full_batch(count_batch: MakeHarness) -> None:
    """BC-040: the old timer must not cut the next batch short."""
    h = count_batch(batch_size=2, timeout=0.1)
    feed(h, 1)
    h.advance(0.09)
    feed(h, 2, 3)
    assert h.advance(0.05) == []
    (sent,) = h.advance(0.05)
    assert values([sent]) == [[3]]


@pytest.mark.parametrize("rate", [20, 500])
def test_poisson_arrivals_wait_no_longer_than_the_timeout(count_batch: MakeHarness, rate: int) -> None:
    """BC-040: bounded wait at any load, large batches at high load."""
    h = count_batch(batch_size=8, timeout=0.1)
    rng = np.random.default_rng(3)
    arrived = {}
    for item in range(400):
        h.advance(float(rng.exponential(1 / rate)))
        feed(h, item)
        arrived[h.last_id] = h.clock.now
    h.advance(1.0)
    waits = [s.at - arrived[m.info.trans_id] for s in h.data() for m in s.members]
    assert len(waits) == 400 and max(waits) <= 0.1 + 1e-9
    if rate == 500:
        assert 400 / len(h.data()) >= 7
    h.check()


def test_wall_clock_has_no_say(count_batch: MakeHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """BC-046."""
    h = count_batch(batch_size=3, timeout=0.1)
    feed(h, 1)
    monkeypatch.setattr("time.time", lambda: 1e12)
    assert h.advance(0.05) == []
    assert values(h.advance(0.05)) == [[1]]


def test_padding_adds_rows_but_no_members(count_batch: MakeHarness) -> None:
    """BC-047: the valid count travels with the batch."""
    h = count_batch(batch_size=4, timeout=0.1, padding=True)
    feed(h, 1, 2, 3)
    (sent,) = h.advance(0.1)
    assert values([sent]) == [[1, 2, 3, 0]]
    assert [(m.info.trans_id, m.rows) for m in sent.members] == [(1, 1), (2, 1), (3, 1)]
    h.check()


def test_sliding_with_padding_ends_each_item_once(count_batch: MakeHarness) -> None:
    """BC-047: windows shrink until all items have left; none is empty, none repeats, each item is a member once."""
    h = count_batch(batch_size=4, slide_stride=2, timeout=0.1, padding=True)
    feed(h, 1, 2, 3)
    h.advance(5.0)
    assert values(h.sent) == [[1, 2, 3, 0], [3, 0, 0, 0]]
    assert [member_ids(s) for s in h.data()] == [[1, 2, 3], []]
    h.check()


def test_padding_without_timeout_changes_nothing(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2, padding=True)
    feed(h, 1)
    assert h.advance(1e6) == []


def test_odd_shape_ends_alone_and_the_others_are_delivered(count_batch: MakeHarness) -> None:
    """BC-037."""
    h = count_batch(batch_size=4)
    for size in (3, 3, 5, 3, 3, 3):
        h.feed(np.ones(size, np.float32))
    (error,) = [s for s in h.sent if s.kind == "error"]
    assert error.info.trans_id == 3
    assert "float[5]" in error.error.message and "float[3]" in error.error.message
    assert [member_ids(s) for s in h.data()] == [[1, 2, 4, 5]]
    h.stop()
    assert [member_ids(s) for s in h.data()] == [[1, 2, 4, 5], [6]]
    h.check()


def test_odd_dtype_ends_alone(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2)
    h.feed(np.zeros(2, np.float32))
    (error,) = h.feed(np.zeros(2, np.float64))
    assert "double[2]" in error.error.message and "float[2]" in error.error.message
    assert member_ids(h.feed(np.zeros(2, np.float32))[0]) == [1, 3]
    h.check()


@pytest.mark.parametrize(
    ("value", "ret_code", "text"),
    [
        (None, 0, "without data"),
        ({"a": 1}, 0, "only tensors"),
        (np.zeros(2, np.float32), 9900001, "return code 9900001"),
    ],
)
def test_what_is_no_good_tensor_ends_alone(
    count_batch: MakeHarness, value: object, ret_code: int, text: str
) -> None:
    """BC-034: success, error, success."""
    h = count_batch(batch_size=2)
    h.feed(np.zeros(2, np.float32))
    (error,) = h.feed(value, ret_code=ret_code)
    assert (error.kind, error.info.trans_id) == ("error", 2)
    assert text in error.error.message
    assert h.feed(np.zeros(2, np.float32))[0].kind == "data"
    h.check()


def test_padding_fills_smaller_tensors_up(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=3, padding=True)
    for shape in ((1, 3), (2, 2)):
        h.feed(np.ones(shape, np.float32))
    (sent,) = h.feed(np.full((1, 1), 7, np.float32))
    assert values([sent]) == [[[[1, 1, 1], [0, 0, 0]], [[1, 1, 0], [1, 1, 0]], [[7, 0, 0], [0, 0, 0]]]]


def test_padding_does_not_mix_ranks(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2, padding=True)
    h.feed(np.ones(3, np.float32))
    (error,) = h.feed(np.ones((3, 1), np.float32))
    assert error.kind == "error"


def test_eos_sends_what_is_there(count_batch: MakeHarness) -> None:
    """BC-039."""
    h = count_batch(batch_size=5)
    feed(h, 1, 2)
    (sent,) = h.feed(np.float32(3), flags=Flag.EOS)
    assert values([sent]) == [[1, 2, 3]]
    assert sent.info.flags == Flag.EOS
    h.check()


def test_null_eos_sends_what_is_there_and_goes_on(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=5)
    feed(h, 1)
    batch, null = h.feed(None, flags=Flag.EOS)
    assert values([batch]) == [[1]]
    assert (null.kind, null.info.flags, null.info.trans_id) == ("null", Flag.EOS, 2)
    h.check()


def test_seg_is_ignored(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2)
    assert h.feed(np.float32(1), flags=Flag.SEG) == []


def test_odd_item_flagged_eos_still_flushes(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=5)
    feed(h, 1)
    batch, error = h.feed(np.zeros(2, np.float32), flags=Flag.EOS)
    assert (values([batch]), error.kind) == ([[1]], "error")
    h.check()


def test_eos_after_sliding_windows_sends_no_window_without_something_new(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=3, slide_stride=1, timeout=0.1)
    feed(h, 1, 2, 3)
    end, null = h.feed(None, flags=Flag.EOS)
    assert (end.kind, end.info.trans_id, null.kind) == ("end", 3, "null")
    assert values(h.sent) == [[1, 2, 3]]
    assert h.advance(10) == []
    h.check()


def test_end_of_the_graph_sends_what_is_left(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=4, timeout=5.0)
    feed(h, 1, 2)
    assert values(h.stop()) == [[1, 2]]
    assert h.advance(10) == []
    h.check()


def test_end_of_the_graph_closes_open_windows(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=3, slide_stride=1, timeout=0.1)
    feed(h, 1, 2, 3)
    assert [s.kind for s in h.stop()] == ["end"]
    h.check()


def test_several_inputs_are_batched_side_by_side(count_batch: MakeHarness) -> None:
    h = count_batch(inputs=2, batch_size=2, timeout=0.1)
    h.feed(np.float32(1), np.zeros(3, np.int8))
    h.feed(np.float32(2), np.ones(3, np.int8))
    assert values(h.data(0)) == [[1, 2]]
    assert values(h.data(1)) == [[[0, 0, 0], [1, 1, 1]]]
    h.feed(np.float32(3), np.ones(3, np.int8))
    h.advance(0.1)
    assert values(h.data(1))[1:] == [[[1, 1, 1]]]
    h.check()


def test_one_bad_input_ends_the_whole_set(count_batch: MakeHarness) -> None:
    h = count_batch(inputs=2, batch_size=2)
    h.feed(np.float32(1), np.zeros(3, np.int8))
    errors = h.feed(np.float32(2), np.zeros(4, np.int8))
    assert [(e.output, e.kind) for e in errors] == [(0, "error"), (1, "error")]
    assert "on input 1" in errors[0].error.message
    errors = h.feed(np.float32(2), None)
    assert "some inputs" in errors[0].error.message


def test_strings_are_batched(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=3, timeout=0.1, padding=True)
    h.feed(np.array(["a", "bcd"]))
    h.feed(np.array(["e", "f"]))
    (sent,) = h.advance(0.1)
    assert values([sent]) == [[["a", "bcd"], ["e", "f"], ["", ""]]]


def test_empty_tensors_are_batched(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2)
    h.feed(np.zeros((0, 3), np.float32))
    (sent,) = h.feed(np.zeros((0, 3), np.float32))
    assert sent.array.shape == (2, 0, 3)


def test_batches_of_batches_stand_for_all_their_members(count_batch: MakeHarness) -> None:
    inner, outer = count_batch(batch_size=2), count_batch(batch_size=2)
    feed(inner, 1, 2, 3, 4)
    for sent in inner.data():
        outer.feed_messages(sent.msg)
    (sent,) = outer.data()
    assert values([sent]) == [[[1, 2], [3, 4]]]
    assert [(m.info.trans_id, m.rows) for m in sent.members] == [(1, 0), (2, 1), (3, 0), (4, 1)]
    outer.check()


def test_two_batchers_have_nothing_in_common(count_batch: MakeHarness) -> None:
    """BC-041."""
    one, two = count_batch(batch_size=2), count_batch(batch_size=2)
    feed(one, 1)
    feed(two, 2)
    assert one.sent == two.sent == []
    feed(two, 3)
    assert (values(one.sent), values(two.sent)) == ([], [[2, 3]])


def test_out_of_memory_ends_every_item_of_the_batch() -> None:
    from dflow_builtin_udf.count_batch import CountBatch
    from dflow_core.errors import PoolExhaustedError
    from dflow_core.message import Block, HeapBlock
    from dflow_core.spi import FuncParams

    def alloc(size: int) -> Block:
        raise PoolExhaustedError("no room")

    params = FuncParams("b", attrs={"batch_size": 2, "timeout": 0.1})
    h = FuncHarness(CountBatch(), params, holds_inputs=True, alloc=alloc)
    feed(h, 1, 2, 3)
    h.advance(0.1)
    assert [(s.kind, s.info.trans_id) for s in h.sent] == [("error", 1), ("error", 2), ("error", 3)]
    assert HeapBlock(1).nbytes == 1
    h.check()


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({}, "needs parameter 'batch_size'"),
        ({"batch_size": 0}, "batch_size: expected a whole number of at least 1, got 0"),
        ({"batch_size": True}, "batch_size"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"batch_size": 2, "slide_stride": 3}, "slide_stride: expected a whole number from 0 to 2, got 3"),
        ({"batch_size": 2, "slide_stride": -1}, "slide_stride"),
        ({"batch_size": 2, "timeout": -0.5}, "timeout: expected seconds, 0 or more, got -0.5"),
        ({"batch_size": 2, "timeout": float("nan")}, "timeout: expected a number"),
        ({"batch_size": 2, "timeout": float("inf")}, "timeout: expected a number"),
        ({"batch_size": 2, "padding": 300}, "padding: expected True or False, got 300"),
        ({"batch_size": 2, "timout": 1.0}, "did you mean 'timeout'"),
        ({"batch_size": 2, "zzz": 1.0}, "it knows batch_size"),
    ],
)
def test_impossible_parameters_are_refused(count_batch: MakeHarness, params: dict[str, object], text: str) -> None:
    """BC-045."""
    with pytest.raises(OptionError) as caught:
        count_batch(**params)
    assert text in str(caught.value)


def test_ports_must_match(count_batch: MakeHarness) -> None:
    with pytest.raises(UsageError, match="as many outputs as inputs"):
        count_batch(inputs=2, outputs=1, batch_size=2)


def test_bfloat16_stays_bfloat16(count_batch: MakeHarness) -> None:
    h = count_batch(batch_size=2)
    bits = np.array([0x3F80, 0x4000], np.uint16)
    h.feed(Tensor(bits, DataType.BF16))
    (sent,) = h.feed(Tensor(bits, DataType.BF16))
    assert sent.msg.body is not None
    desc = TensorDesc.unpack_from(sent.msg.body, 0)
    assert (desc.dtype, desc.shape) == (DataType.BF16, (2, 2))
    assert sent.array.view(np.uint16).tolist() == [bits.tolist()] * 2
