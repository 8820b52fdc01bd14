"""Unbatch takes batches apart: each member gets its rows under its own head."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.errors import OptionError, UsageError
from dflow_core.message import Flag, HeapBlock, Member, MsgInfo, encode, root_token
from dflow_core.testing.func_harness import FuncHarness, Sent

MakeHarness = Callable[..., FuncHarness]


def batch(count: int, rows: int = 1) -> list[Member]:
    """Members with transactions 1 to count."""
    return [Member(MsgInfo(i, token=root_token(i)), rows) for i in range(1, count + 1)]


def through(source: FuncHarness, sink: FuncHarness, work: Callable[[object], object] = lambda v: v) -> None:
    """Pass what one function sent to another, with work on the values in between."""
    from dflow_core.message import Aux

    for sent in source.sent:
        msg = sent.msg
        if sent.kind == "data":
            msg = encode(work(sent.value), msg.info, HeapBlock, Aux(sent.members))
        sink.feed_messages(msg)


def results(sent: list[Sent]) -> dict[int, object]:
    """Values by transaction."""
    return {s.info.trans_id: np.asarray(s.value).tolist() for s in sent if s.kind == "data"}


def test_each_member_gets_its_row_under_its_own_head(count_batch: MakeHarness, unbatch: MakeHarness) -> None:
    source, sink = count_batch(batch_size=3), unbatch()
    for i in range(3):
        source.feed(np.full(2, i), user_data=bytes([65 + i]))
    through(source, sink)
    assert results(sink.sent) == {1: [0, 0], 2: [1, 1], 3: [2, 2]}
    assert [s.info.user_data[:1] for s in sink.sent] == [b"A", b"B", b"C"]
    assert all(not s.members for s in sink.sent)
    sink.check()


def test_padding_is_let_go(count_batch: MakeHarness, unbatch: MakeHarness) -> None:
    """BC-047: three items in, three results out."""
    source, sink = count_batch(batch_size=4, timeout=0.1, padding=True), unbatch(padding=True)
    for i in range(3):
        source.feed(np.float32(i))
    source.advance(0.1)
    through(source, sink)
    assert results(sink.sent) == {1: 0, 2: 1, 3: 2}
    sink.check()


@pytest.mark.parametrize("padding", [False, True])
def test_sliding_windows_give_each_item_once(count_batch: MakeHarness, unbatch: MakeHarness, padding: bool) -> None:
    """BC-047: also with windows that hold nothing new."""
    source = count_batch(batch_size=4, slide_stride=2, timeout=0.1, padding=padding)
    sink = unbatch(padding=padding)
    for i in range(1, 8):
        source.feed(np.float32(i))
    source.advance(10.0)
    through(source, sink)
    assert len(source.data()) > 3
    assert results(sink.sent) == {i: i for i in range(1, 8)}
    assert len(sink.data()) == 7
    sink.check()


def test_joined_rows_come_apart_by_their_number(time_batch: MakeHarness, unbatch: MakeHarness) -> None:
    source, sink = time_batch(window=-1, batch_dim=1), unbatch(batch_dim=1)
    for i, rows in enumerate((1, 3, 2)):
        source.feed(np.full((2, rows), i), start_time=i, end_time=i)
    source.feed(None, flags=Flag.EOS)
    through(source, sink)
    assert [s.array.shape for s in sink.data()] == [(2, 1), (2, 3), (2, 2)]
    assert [(s.kind, s.info.trans_id) for s in sink.sent][-1] == ("null", 4)
    assert sink.sent[-1].info.flags == Flag.EOS
    sink.check()


def test_dict_is_taken_apart_by_element(unbatch: MakeHarness) -> None:
    """BC-043."""
    h = unbatch()
    value = {"boxes": np.arange(8).reshape(4, 2), "names": ["a", "b", "c", "d"]}
    h.feed(value, members=batch(4), trans_id=4)
    got = [s.value for s in h.data()]
    assert [sorted(v) for v in got if isinstance(v, dict)] == [["boxes", "names"]] * 4
    assert [v["names"] for v in got if isinstance(v, dict)] == ["a", "b", "c", "d"]
    assert [v["boxes"].tolist() for v in got if isinstance(v, dict)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    h.check()


def test_list_has_one_entry_for_each_member(unbatch: MakeHarness) -> None:
    h = unbatch()
    h.feed(["a", {"b": 1}, None], members=batch(3), trans_id=3)
    assert [s.value for s in h.sent] == ["a", {"b": 1}, None]
    h.check()


@pytest.mark.parametrize(
    "value",
    [np.zeros((3, 2)), np.zeros((5, 2)), np.float32(1), ["a"], {"x": np.zeros(3)}, {"x": np.zeros(4), "y": ["a"]}],
)
def test_wrong_number_of_rows_ends_every_member(unbatch: MakeHarness, value: object) -> None:
    """BC-036: expected 4, got N, for each of the four; the next batch is fine."""
    h = unbatch()
    sent = h.feed(value, members=batch(4), trans_id=4)
    assert [s.kind for s in sent] == ["error"]
    assert [m.info.trans_id for m in sent[0].members] == [1, 2, 3, 4]
    assert "4" in sent[0].error.message or "row" in sent[0].error.message
    assert len(h.feed(np.zeros((1, 2)), members=[Member(MsgInfo(5, token=root_token(5)))], trans_id=5)) == 1


@pytest.mark.parametrize("value", [("a", "b"), "ab", 3, {}, {1, 2}])
def test_ambiguous_value_is_refused(unbatch: MakeHarness, value: object) -> None:
    """BC-043."""
    (sent,) = unbatch().feed(value, members=batch(2), trans_id=2)
    assert "cannot be taken apart" in sent.error.message


def test_message_without_members_is_refused(unbatch: MakeHarness) -> None:
    (sent,) = unbatch().feed(np.zeros((2, 2)))
    assert "carries no members" in sent.error.message
    assert "TimeBatch or CountBatch" in sent.error.traceback


def test_surplus_rows_are_refused_unless_padding_is_expected(unbatch: MakeHarness) -> None:
    (sent,) = unbatch().feed(np.zeros(4), members=batch(3), trans_id=3)
    assert "expected 3 rows" in sent.error.message and "padding=True" in sent.error.traceback


def test_null_message_passes(unbatch: MakeHarness) -> None:
    h = unbatch()
    (sent,) = h.feed(None, flags=Flag.EOS)
    assert (sent.kind, sent.info.flags) == ("null", Flag.EOS)
    h.check()


def test_batches_of_batches_end_every_transaction(count_batch: MakeHarness, unbatch: MakeHarness) -> None:
    inner, outer, sink = count_batch(batch_size=2), count_batch(batch_size=2), unbatch()
    for i in range(4):
        inner.feed(np.float32(i))
    through(inner, outer)
    through(outer, sink)
    assert results(sink.sent) == {2: [0, 1], 4: [2, 3]}
    assert [(s.kind, s.info.trans_id) for s in sink.sent if s.kind != "data"] == [("skip", 1), ("skip", 3)]
    sink.check()


def test_impossible_parameters_are_refused(unbatch: MakeHarness) -> None:
    with pytest.raises(OptionError, match="batch_dim"):
        unbatch(batch_dim=-2)
    with pytest.raises(UsageError, match="as many outputs"):
        unbatch(inputs=2, outputs=1)
