"""Queues between machines that drop messages: every message arrives, or the news that it was dropped does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflow_core.message import DataFlag, FlowMsg, MsgInfo
from dflow_core.model import QueuePlan
from tests.unit.executor.machines import End, TwoMachines

NEVER, ALWAYS = 1e6, 1e-9


def lossy(overflow: str, depth: int, max_age: float = 0.0, notices: int = 2) -> list[QueuePlan]:
    return [QueuePlan("q", depth, overflow, max_age, "news"), QueuePlan("news", notices)]


def seen(end: End) -> list[tuple[int, bool]]:
    """Transactions that can be read now, and whether with data; notices come first."""
    return [(msg.info.trans_id, msg.is_data) for msg in end.messages()]


@pytest.mark.parametrize(
    ("plan", "at_source", "at_target"),
    [
        # Five messages before a link is there; then one more at a time, with nobody reading at the other end.
        (("drop_oldest", 2), [(1, False), (2, False), (3, False), (4, True), (5, True)], [6, 7]),
        (("drop_newest", 2), [(3, False), (4, False), (5, False), (1, True), (2, True)], [6, 7]),
        (("keep_latest", 1), [(1, False), (2, False), (3, False), (4, False), (5, True)], [7]),
        (("max_age", 5, NEVER), [(1, True), (2, True), (3, True), (4, True), (5, True)], [6, 7]),
        (("max_age", 5, ALWAYS), [(1, False), (2, False), (3, False), (4, False), (5, False)], []),
    ],
    ids=["drop_oldest", "drop_newest", "keep_latest", "young", "too_old"],
)
def test_the_policy_applies_on_both_sides(
    plan: tuple[str, int], at_source: list[tuple[int, bool]], at_target: list[int]
) -> None:
    two = TwoMachines(lossy(*plan, notices=16))
    two.head.put(1, 2, 3, 4, 5)
    got = []
    for _ in range(6):
        two.settle()
        got += seen(two.far)
    assert sorted(got) == sorted(at_source)
    for trans_id in (6, 7):
        two.head.put(trans_id)
        two.settle()
    got = seen(two.far)
    assert sorted(trans_id for trans_id, _ in got) == [6, 7]
    assert [trans_id for trans_id, is_data in got if is_data] == at_target


def test_a_slow_reader_at_the_far_end_gets_the_latest_and_the_news_of_all_others() -> None:
    two = TwoMachines(lossy("keep_latest", 1))
    for trans_id in range(1, 101):
        two.head.put(trans_id)
        two.settle()
    assert two.head.in_use == 0  # the window is open: the queue at the far end takes everything
    got: list[tuple[int, bool]] = []
    for _ in range(100):
        got += seen(two.far)
        two.settle()
    assert sorted(got) == [(trans_id, trans_id == 100) for trans_id in range(1, 101)]


def test_messages_without_data_are_not_dropped_and_wait_where_they_cannot_be_told() -> None:
    two = TwoMachines(lossy("drop_oldest", 1, notices=1))
    skip = MsgInfo(data_flag=DataFlag.SKIP | DataFlag.NULL)
    for trans_id in range(1, 41):
        skip.trans_id = trans_id
        two.head.send(FlowMsg(skip.copy()))
        two.settle()
    assert two.far.in_use <= 3  # one in the queue of notices, one that waits for room there, one arrival
    got: list[tuple[int, bool]] = []
    for _ in range(80):
        got += seen(two.far)
        two.head.flush()
        two.settle()
    assert got == [(trans_id, False) for trans_id in range(1, 41)]


def test_the_end_comes_after_the_last_notice() -> None:
    two = TwoMachines(lossy("keep_latest", 1, notices=1))
    for trans_id in range(1, 6):
        two.head.put(trans_id)
        two.settle()
    two.head.queue().close()
    two.head.queue("news").close()
    two.settle()
    assert two.far.heard.ended == []  # notices wait for room
    assert two.far.mover.waits().timeout < 0.1
    got: list[tuple[int, bool]] = []
    while not two.far.heard.ended:
        step = seen(two.far)
        assert step
        got += step
        two.settle()
    got += seen(two.far)
    assert (sorted(got), two.far.heard.ended) == ([(1, False), (2, False), (3, False), (4, False), (5, True)], ["q"])


POLICIES = st.sampled_from(["drop_oldest", "drop_newest", "keep_latest", "max_age"])
STEPS = st.lists(st.sampled_from(["put", "put", "put", "take", "turn", "settle"]), max_size=80)


@settings(deadline=None)
@given(POLICIES, st.integers(1, 4), st.integers(1, 3), STEPS)
def test_every_message_or_its_notice_arrives_once(overflow: str, depth: int, notices: int, steps: list[str]) -> None:
    age = NEVER if overflow == "max_age" else 0.0
    two = TwoMachines(lossy(overflow, 1 if overflow == "keep_latest" else depth, age, notices))
    sent, got = 0, []
    for step in [*steps, "settle"]:
        if step == "put" and (overflow != "max_age" or two.head.queue().level() < depth):
            sent += 1
            two.head.put(sent)
        elif step == "take":
            got += seen(two.far)
        elif step == "turn":
            two.head.mover.turn()
        elif step == "settle":
            two.settle()
    for _ in range(2 * sent + 2):
        got += seen(two.far)
        two.head.flush()
        two.settle()
    assert sorted(trans_id for trans_id, _ in got) == list(range(1, sent + 1))
    data = [trans_id for trans_id, is_data in got if is_data]
    assert data == sorted(data)
    two.close()
    assert (two.head.in_use, two.far.in_use) == (0, 0)
