"""Whatever arrives, and whenever: every item ends exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflow_builtin_udf import plugin
from dflow_core.message import HeapBlock, encode
from dflow_core.testing.func_harness import FuncHarness, Sent

ENTRIES = {entry.name: entry for entry in plugin.dflow_register_udfs()}
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Event:
    """One thing that happens to a function."""

    kind: str
    size: int = 2
    flags: int = 0
    span: tuple[int, int] = (0, 0)
    wait: float = 0.0


events = st.lists(
    st.one_of(
        st.builds(
            Event, st.sampled_from(["data"] * 6 + ["null", "object", "bad"]), st.sampled_from([2, 2, 2, 3]),
            st.sampled_from([0] * 6 + [1, 2, 3]), st.tuples(st.integers(-1, 4), st.integers(-1, 6)),
        ),
        st.builds(Event, st.just("wait"), wait=st.sampled_from([0.01, 0.05, 0.1, 0.3])),
    ),
    max_size=25,
)

VALUES: dict[str, Callable[[Event], object]] = {
    "data": lambda e: np.full(e.size, e.size, np.float32),
    "null": lambda e: None,
    "object": lambda e: {"size": e.size},
    "bad": lambda e: np.zeros(e.size, np.int32),
}


def drive(h: FuncHarness, happenings: list[Event]) -> None:
    """Let it all happen, then end."""
    time = 10
    for event in happenings:
        if event.kind == "wait":
            h.advance(event.wait)
            continue
        start = max(0, time + event.span[0])
        time = max(0, start + event.span[1])
        h.feed(VALUES[event.kind](event), flags=event.flags, start_time=start, end_time=time)
    h.stop()


def unbatched(h: FuncHarness, params: dict[str, object]) -> list[Sent]:
    """What Unbatch makes of everything a function sent; checks that it ends everything too."""
    sink = FuncHarness.of(ENTRIES["_BuiltIn_Unbatch"], params)
    for sent in h.sent:
        if sent.kind == "data":
            sink.feed_messages(encode(sent.value, sent.info, HeapBlock, sent.msg.aux))
        else:
            sink.feed_messages(sent.msg)
    sink.check()
    return sink.data()


@quick
@given(events, st.integers(1, 5), st.integers(0, 5), st.sampled_from([0.0, 0.1]), st.booleans())
def test_count_batch_ends_every_item_once(
    happenings: list[Event], size: int, stride: int, timeout: float, padding: bool
) -> None:
    params = {"batch_size": size, "slide_stride": min(stride, size), "timeout": timeout, "padding": padding}
    h = FuncHarness.of(ENTRIES["_BuiltIn_CountBatch"], params)
    drive(h, happenings)
    h.check()
    items = unbatched(h, {"padding": padding})
    assert len({s.info.trans_id for s in items}) == len(items)
    assert all(1 <= len(s.array) <= size for s in h.data())


@quick
@given(events, st.sampled_from([-1, 3, 6]), st.integers(-1, 1), st.booleans(), st.sampled_from([0.0, 0.1]))
def test_time_batch_ends_every_item_once(
    happenings: list[Event], window: int, dim: int, drop: bool, timeout: float
) -> None:
    params = {"window": window, "batch_dim": dim, "drop_remainder": drop, "timeout": timeout, "max_items": 6}
    h = FuncHarness.of(ENTRIES["_BuiltIn_TimeBatch"], params)
    drive(h, happenings)
    h.check()
    unbatched(h, {"batch_dim": dim})
    assert all(window < 0 or s.info.end_time - s.info.start_time <= window for s in h.data())
