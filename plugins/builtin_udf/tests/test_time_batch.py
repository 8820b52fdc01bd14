"""TimeBatch: runtime semantics, section 15, and what we do differently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from dflow_core.errors import OptionError
from dflow_core.message import Flag
from dflow_core.testing.func_harness import FuncHarness, Sent

MakeHarness = Callable[..., FuncHarness]
EOS, SEG = Flag.EOS, Flag.SEG


def feed(harness: FuncHarness, start: int, end: int, flags: int = 0, value: object = None) -> list[Sent]:
    """Feed a message of a time span; its value is [start, end] unless given."""
    array = np.array([start, end], np.int64) if value is None else value
    return harness.feed(*[array] * harness.inputs, start_time=start, end_time=end, flags=flags)


def feed_null(harness: FuncHarness, flags: int = EOS) -> list[Sent]:
    """Feed a message without data."""
    return harness.feed(*[None] * harness.inputs, flags=flags)


def told(sent: Sequence[Sent]) -> list[object]:
    """What was sent, in short: start and end of batches, else the kind."""
    return [(s.info.start_time, s.info.end_time, len(s.members)) if s.kind == "data" else s.kind for s in sent]


Span = tuple[int, int, int]

TABLE: list[tuple[str, dict[str, object], list[Span | None], list[list[object]]]] = [
    # name, parameters, messages (start, end, flags) or None for a null EOS message, what each one makes it send
    ("window reached", {"window": 10}, [(0, 4, 0), (4, 10, 0)], [[], [(0, 10, 2)]]),
    ("one message fills it", {"window": 10}, [(5, 15, 0)], [[(5, 15, 1)]]),
    ("gaps count", {"window": 10}, [(0, 1, 0), (9, 10, 0)], [[], [(0, 10, 2)]]),
    ("starts again", {"window": 4}, [(0, 4, 0), (7, 9, 0), (10, 11, 0)], [[(0, 4, 1)], [], [(7, 11, 2)]]),
    ("seg cuts", {"window": 10}, [(0, 2, 0), (2, 4, SEG)], [[], [(0, 4, 2)]]),
    ("eos cuts", {"window": 10}, [(0, 4, EOS)], [[(0, 4, 1)]]),
    ("seg cut is dropped", {"window": 10, "drop_remainder": True}, [(0, 4, SEG)], [["skip"]]),
    ("eos cut is dropped", {"window": 10, "drop_remainder": True}, [(0, 4, 0), (4, 5, EOS)], [[], ["skip", "null"]]),
    ("full with eos", {"window": 10, "drop_remainder": True}, [(0, 10, EOS)], [[(0, 10, 1)]]),
    ("no limit", {"window": -1}, [(0, 4, 0), (4, 400, 0), (400, 401, SEG)], [[], [], [(0, 401, 3)]]),
    ("no limit never drops", {"window": -1, "drop_remainder": True}, [(0, 4, 0), (4, 5, EOS)], [[], [(0, 5, 2)]]),
    ("null eos alone", {"window": 10}, [None], [["null"]]),
    ("null eos cuts", {"window": 10}, [(0, 4, 0), None], [[], [(0, 4, 2)]]),
    ("null eos drops", {"window": 10, "drop_remainder": True}, [(0, 4, 0), None], [[], ["skip", "null"]]),
    ("too long ends it early", {"window": 10}, [(0, 4, 0), (4, 11, 0)], [[], [(0, 4, 1), "error"]]),
    ("too long, dropped", {"window": 10, "drop_remainder": True}, [(0, 4, 0), (4, 11, 0)], [[], ["skip", "error"]]),
    ("too long alone", {"window": 10}, [(0, 11, 0), (11, 21, 0)], [["error"], [(11, 21, 1)]]),
    ("backwards", {"window": 10}, [(0, 4, 0), (3, 10, 0), (4, 10, 0)], [[], ["error"], [(0, 10, 2)]]),
    ("ends before it starts", {"window": 10}, [(5, 4, 0), (0, 10, 0)], [["error"], [(0, 10, 1)]]),
    ("odd one with seg cuts", {"window": 10}, [(0, 4, 0), (3, 5, SEG)], [[], [(0, 4, 1), "error"]]),
    ("fractions", {"window": 2.5}, [(0, 2, 0), (2, 3, 0)], [[], [(0, 2, 1), "error"]]),
]


@pytest.mark.parametrize(("params", "messages", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_rules(
    time_batch: MakeHarness, params: dict[str, object], messages: list[Span | None], expected: list[list[object]]
) -> None:
    """BC-039: what makes a window end, and what becomes of what is in it."""
    h = time_batch(**params)
    assert [told(feed_null(h) if m is None else feed(h, *m)) for m in messages] == expected
    h.stop()
    h.check()


def test_head_is_that_of_the_last_message(time_batch: MakeHarness) -> None:
    h = time_batch(window=10)
    h.feed(np.zeros(1), start_time=0, end_time=4, user_data=b"first", step_id=7)
    (sent,) = h.feed(np.zeros(1), start_time=4, end_time=10, flags=EOS, user_data=b"last", step_id=2, route_label=3)
    info = sent.info
    assert (info.trans_id, info.flags, info.route_label, info.step_id) == (2, EOS, 3, 7)
    assert info.user_data.rstrip(b"\0") == b"last"


def test_null_eos_gives_its_head_to_the_batch(time_batch: MakeHarness) -> None:
    h = time_batch(window=10)
    feed(h, 0, 4)
    (sent,) = feed_null(h)
    assert (sent.kind, sent.info.trans_id, sent.info.flags) == ("data", 2, EOS)
    assert [(m.info.trans_id, m.rows) for m in sent.members] == [(1, 1), (2, 0)]
    h.check()


def test_dropped_eos_still_goes_on(time_batch: MakeHarness) -> None:
    h = time_batch(window=10, drop_remainder=True)
    (sent,) = feed(h, 0, 4, EOS | SEG)
    assert (sent.kind, sent.info.flags) == ("null", EOS)


@pytest.mark.parametrize("dim", [-1, 0, 1])
def test_batch_dim_says_how_messages_are_joined(time_batch: MakeHarness, dim: int) -> None:
    h = time_batch(window=10, batch_dim=dim)
    a, b = np.full((2, 3), 1, np.float32), np.full((2, 3), 2, np.float32)
    feed(h, 0, 4, value=a)
    (sent,) = feed(h, 4, 10, value=b)
    expected = np.stack([a, b]) if dim < 0 else np.concatenate([a, b], dim)
    assert np.array_equal(sent.array, expected)


def test_joined_messages_may_differ_in_that_dimension_only(time_batch: MakeHarness) -> None:
    h = time_batch(window=10, batch_dim=1)
    feed(h, 0, 2, value=np.ones((2, 3)))
    feed(h, 2, 4, value=np.ones((2, 1)))
    (error,) = feed(h, 4, 6, value=np.ones((3, 1)))
    assert "double[3, 1]" in error.error.message and "double[2, 3]" in error.error.message
    (sent,) = feed(h, 6, 10, value=np.ones((2, 5)))
    assert sent.array.shape == (2, 9)
    assert [m.rows for m in sent.members] == [3, 1, 5]
    h.check()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.ones(2, np.float32), "float[2]"),
        (np.ones((2, 3, 1)), "double[2, 3, 1]"),
        (np.ones((2, 4)), "double[2, 4]"),
        (np.ones((0, 3)), "empty"),
        ({"an": "object"}, "only tensors"),
    ],
)
def test_odd_message_ends_alone(time_batch: MakeHarness, value: object, text: str) -> None:
    h = time_batch(window=10)
    feed(h, 0, 4, value=np.ones((2, 3)))
    (error,) = feed(h, 4, 5, value=value)
    assert error.kind == "error" and text in error.error.message
    assert told(feed(h, 5, 10, value=np.ones((2, 3)))) == [(0, 10, 2)]
    h.check()


def test_dimension_beyond_the_rank_is_an_error(time_batch: MakeHarness) -> None:
    (error,) = feed(time_batch(window=10, batch_dim=2), 0, 4, value=np.ones((2, 2)))
    assert "no dimension 2" in error.error.message


def test_null_message_without_eos_is_an_error(time_batch: MakeHarness) -> None:
    h = time_batch(window=10)
    (error,) = feed_null(h, SEG)
    assert "must be flagged EOS" in error.error.message


def test_return_code_ends_alone(time_batch: MakeHarness) -> None:
    h = time_batch(window=10)
    (error,) = h.feed(np.zeros(2), ret_code=164000)
    assert "return code 164000" in error.error.message


def test_inputs_must_agree_on_time_and_emptiness(time_batch: MakeHarness) -> None:
    from dataclasses import replace

    from dflow_core.message import MsgInfo, encode, root_token

    h = time_batch(inputs=2, window=10)
    info = MsgInfo(1, start_time=0, end_time=4, token=root_token(1))
    h.feed_messages(encode(np.zeros(1), info), encode(np.zeros(1), replace(info, end_time=5)))
    h.feed(np.zeros(1), None, flags=EOS)
    assert "equal times and flags" in h.sent[0].error.message
    assert "some inputs" in h.sent[2].error.message
    assert [s.kind for s in h.sent] == ["error"] * 4
    h.check()


def test_several_inputs_make_several_batches(time_batch: MakeHarness) -> None:
    h = time_batch(inputs=2, window=10, batch_dim=0)
    for start, end, rows in ((0, 4, 1), (4, 10, 2)):
        h.feed(np.ones((rows, 2)), np.ones(rows, np.int8), start_time=start, end_time=end)
    first, second = h.sent
    assert [s.array.shape for s in (first, second)] == [(3, 2), (3,)]
    assert [m.rows for m in first.members] == [m.rows for m in second.members] == [1, 2]
    h.check()


def test_null_eos_goes_on_on_every_output(time_batch: MakeHarness) -> None:
    h = time_batch(inputs=2, window=10)
    assert [(s.output, s.kind) for s in feed_null(h)] == [(0, "null"), (1, "null")]
    h.check()


def test_event_time_alone_never_ends_a_window(time_batch: MakeHarness) -> None:
    """BC-039, BC-046: only message times count, unless `timeout` is set."""
    h = time_batch(window=5)
    feed(h, 0, 3)
    assert h.advance(1e6) == []


def test_timeout_ends_a_window_in_real_time(time_batch: MakeHarness) -> None:
    """BC-039: the optional limit on the wall, counted from the first message."""
    h = time_batch(window=5, timeout=0.2)
    feed(h, 0, 1)
    h.advance(0.15)
    feed(h, 1, 2)
    (sent,) = h.advance(5.0)
    assert told([sent]) == [(0, 2, 2)]
    assert sent.at == pytest.approx(1000.2)
    feed(h, 2, 3)
    assert len(h.advance(0.3)) == 1
    h.check()


def test_timeout_obeys_drop_remainder(time_batch: MakeHarness) -> None:
    h = time_batch(window=5, timeout=0.2, drop_remainder=True)
    feed(h, 0, 1)
    assert told(h.advance(1.0)) == ["skip"]
    h.check()


def test_end_of_the_graph_ends_the_window(time_batch: MakeHarness) -> None:
    h = time_batch(window=5)
    feed(h, 0, 1)
    assert told(h.stop()) == [(0, 1, 1)]
    h.check()


def test_waiting_items_are_capped_by_number(time_batch: MakeHarness) -> None:
    """BC-044: a client that never sends SEG."""
    h = time_batch(window=-1, max_items=3)
    for i in range(5):
        feed(h, i, i)
    assert [s.info.trans_id for s in h.sent if s.kind == "error"] == [4, 5]
    assert "max_items" in h.sent[0].error.message
    assert h.sent[0].error.node == "_BuiltIn_TimeBatch"
    assert told(feed_null(h)) == [(0, 2, 4)]
    h.check()


def test_waiting_items_are_capped_by_size(time_batch: MakeHarness) -> None:
    """BC-044."""
    h = time_batch(window=-1, max_bytes=5000)
    for i in range(4):
        feed(h, i, i, value=np.zeros(1000, np.uint8))
    assert ["max_bytes" in s.error.message for s in h.sent] == [True, True]


def test_caps_are_finite_by_default() -> None:
    """BC-044."""
    from dflow_builtin_udf import plugin

    entry = next(e for e in plugin.dflow_register_udfs() if e.name == "_BuiltIn_TimeBatch")
    assert entry.parameters["max_items"] == 8192
    assert entry.parameters["max_bytes"] == 1 << 30


@pytest.mark.parametrize(
    "params",
    [
        {}, {"window": 0}, {"window": -2}, {"window": "10"}, {"window": 10, "batch_dim": -2},
        {"window": 10, "drop_remainder": 1}, {"window": 10, "timeout": -1}, {"window": 10, "max_items": 0},
    ],
)
def test_impossible_parameters_are_refused(time_batch: MakeHarness, params: dict[str, object]) -> None:
    with pytest.raises(OptionError, match="TimeBatch"):
        time_batch(**params)


def test_batches_joined_along_their_rows_keep_their_members(count_batch: MakeHarness, time_batch: MakeHarness) -> None:
    inner, outer = count_batch(batch_size=2), time_batch(window=3, batch_dim=0)
    for i in range(4):
        inner.feed(np.float32(i), start_time=i, end_time=i)
    for sent in inner.data():
        outer.feed_messages(sent.msg)
    (sent,) = outer.stop()
    assert sent.array.tolist() == [0, 1, 2, 3]
    assert [(m.info.trans_id, m.rows) for m in sent.members] == [(1, 1), (2, 1), (3, 1), (4, 1)]
    outer.check()
