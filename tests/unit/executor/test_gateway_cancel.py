"""Cancelled transactions and suspended graphs over two machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflow_core.executor.cancel_board import BOARD, WORDS, CancelBoard, CancelReader
from dflow_core.executor.gateway import words
from dflow_core.model import QueuePlan
from dflow_core.spi import FIRST_DATA_LANE, GATEWAY_LANE
from tests.unit.executor.machines import End, TwoMachines


def board(end: End) -> CancelBoard:
    return CancelBoard(end.group.board(BOARD, WORDS))


def cancelled(end: End) -> CancelReader:
    return CancelReader(end.group.board(BOARD, WORDS))


def test_what_is_cancelled_goes_ahead_of_later_messages_and_of_those_that_wait() -> None:
    two = TwoMachines([QueuePlan("q", 8)])
    two.settle()
    two.head.put(1)
    two.head.mover.turn()
    board(two.head).add(1)
    two.head.put(2)
    two.head.mover.turn()
    assert [lane for lane, _ in two.head.link.sent] == [FIRST_DATA_LANE, GATEWAY_LANE, FIRST_DATA_LANE]
    two.head.link.travel(two.far.receiver)
    two.far.mover.turn()
    assert 1 in cancelled(two.far)
    assert two.far.heard.cancelled == 1
    two.settle()
    assert two.far.taken() == [1, 2]


def test_what_is_cancelled_while_messages_are_sent_goes_ahead_of_the_next_one() -> None:
    two = TwoMachines([QueuePlan("q", 8)])
    two.settle()
    mine = board(two.head)
    two.head.put(1, 2, 3)
    two.head.link.on_send = lambda lane: mine.add(len(mine) + 1) if lane >= FIRST_DATA_LANE else None
    two.head.mover.turn()
    data, urgent = FIRST_DATA_LANE, GATEWAY_LANE
    assert [lane for lane, _ in two.head.link.sent] == [data, urgent, data, urgent, data]
    two.head.mover.turn()
    assert two.head.link.sent[-1][0] == urgent


def test_it_is_told_without_a_message_too_and_once() -> None:
    two = TwoMachines([QueuePlan("q", 8)])
    mine = board(two.head)
    mine.add(7)
    for _ in range(3):
        two.settle()
    assert two.far.heard.cancelled == 1
    mine.remove(7)
    two.settle()
    assert (two.far.heard.cancelled, 7 in cancelled(two.far)) == (2, False)


def test_only_the_machine_of_the_application_tells() -> None:
    two = TwoMachines([QueuePlan("q", 8), QueuePlan("r", 8)], back=["r"])
    board(two.far).add(3)
    two.far.put(4, queue="r")
    two.settle()
    assert two.head.taken("r") == [4]
    assert (two.head.heard.cancelled, 3 in cancelled(two.head)) == (0, False)


def test_a_transaction_id_used_again_is_not_cancelled() -> None:
    two = TwoMachines([QueuePlan("q", 8)])
    mine, theirs = board(two.head), cancelled(two.far)
    mine.add(5)
    two.settle()
    assert 5 in theirs
    mine.remove(5)
    two.head.put(5)
    two.head.mover.turn()
    while not two.far.queue().level():
        assert two.head.link.travel(two.far.receiver)
        two.far.mover.turn()
    assert 5 not in theirs


STEP = st.one_of(
    st.tuples(st.sampled_from(["put", "cancel", "finish"]), st.integers(1, 3)),
    st.tuples(st.sampled_from(["turn", "travel", "far turn"]), st.just(0)),
)


@settings(deadline=None)
@given(st.lists(STEP, max_size=60))
def test_a_message_put_after_its_id_was_free_never_meets_the_old_cancellation(steps: list[tuple[str, int]]) -> None:
    two = TwoMachines([QueuePlan("q", 64)])
    two.settle()
    mine, theirs = board(two.head), cancelled(two.far)
    live: set[int] = set()
    times = dict.fromkeys(range(1, 4), 0)  # how often each was cancelled
    sent: list[tuple[int, int | None]] = []  # with how often it had been when it was put; None where it was
    arrived = 0
    for step, trans_id in [*steps, *[(what, 0) for what in ("turn", "travel", "far turn") for _ in range(80)]]:
        if step == "put" and len(sent) < 64:
            sent.append((trans_id, None if trans_id in live else times[trans_id]))
            two.head.put(trans_id)
        elif step == "cancel" and trans_id not in live:
            live.add(trans_id)
            times[trans_id] += 1
            mine.add(trans_id)
        elif step == "finish":
            live.discard(trans_id)
            mine.remove(trans_id)
        elif step == "turn":
            two.head.mover.turn()
        elif step == "travel":
            two.head.link.travel(two.far.receiver)
        elif step == "far turn":
            two.far.mover.turn()
            while two.far.link.travel(two.head.receiver):
                pass
            for number, msg in enumerate(two.far.messages(), arrived):
                arrived = number + 1
                expected, before = sent[number]
                assert msg.info.trans_id == expected
                if before is None:
                    continue
                assert expected not in theirs or times[expected] > before


# ------------------------------------------------------------------------------------------------------ suspended


def test_what_leaves_is_thrown_away() -> None:
    two = TwoMachines([QueuePlan("q", 8)])
    two.head.put(1, 2)
    assert [two.head.mover.discard(), two.head.mover.discard()] == [False, True]
    assert two.head.in_use == 0
    two.settle()
    assert two.far.taken() == []


def test_what_has_arrived_and_found_no_room_is_thrown_away() -> None:
    two = TwoMachines([QueuePlan("q", 1)])
    for trans_id in (1, 2):
        two.head.put(trans_id)
        two.settle()
    assert two.far.mover.waits().writable
    assert [two.far.mover.discard(), two.far.mover.discard()] == [False, True]
    assert not two.far.mover.waits().writable
    two.settle()
    assert (two.far.taken(), two.far.in_use) == ([1], 0)  # what lies in the queue is the reader's


def test_it_is_not_nothing_until_what_was_sent_is_known_to_have_been_taken() -> None:
    two = TwoMachines([QueuePlan("q", 8)])
    two.settle()
    two.head.put(1)
    two.head.mover.turn()
    assert not two.head.mover.discard()  # in the link
    lane = two.head.link.waiting()[0]
    room = two.head.link.start(lane, two.far.receiver)
    assert not two.far.mover.discard()  # half received
    del room
    two.head.link.travel(two.far.receiver)
    assert [two.far.mover.discard(), two.far.mover.discard()] == [False, True]
    assert not two.head.mover.discard()  # it has not heard of it
    while two.far.link.travel(two.head.receiver):
        pass
    assert two.head.mover.discard()
    assert two.far.taken() == []


def test_notices_that_wait_for_room_are_something() -> None:
    two = TwoMachines([QueuePlan("q", 1, "keep_latest", 0.0, "news"), QueuePlan("news", 1)])
    for trans_id in range(1, 5):
        two.head.put(trans_id)
        two.settle()
    for end, other in two.ends:
        end.mover.discard()
        while end.link.travel(other.receiver):
            pass
    assert [end.mover.discard() for end, _ in two.ends] == [True, False]
    two.far.messages()
    assert two.far.mover.discard()


@pytest.mark.parametrize("overflow", ["block", "drop_oldest"])
def test_after_it_messages_move_as_before(overflow: str) -> None:
    queues = [QueuePlan("q", 2, overflow, 0.0, "news"), QueuePlan("news", 8)]
    two = TwoMachines([QueuePlan("q", 2)] if overflow == "block" else queues, memory=(1 << 20, 64 << 10))
    hog = two.far.group.alloc(60 << 10)
    two.head.put(1, 2, value=np.zeros(20 << 10, np.uint8))
    two.settle()
    hog.release()
    for _ in range(4):
        for end, other in two.ends:
            end.mover.discard()
            while end.link.travel(other.receiver):
                pass
    assert [end.mover.discard() for end, _ in two.ends] == [True, True]
    two.head.put(3, 4, value=np.zeros(20 << 10, np.uint8))
    two.head.mover.turn()
    while two.head.link.travel(two.far.receiver):
        pass
    assert two.far.in_use == 2  # nothing is left of the shortage
    two.settle()
    assert two.far.taken() == [3, 4]
    for queue in two.head.plan.queues:
        two.head.queue(queue.name).close()
    assert two.head.mover.discard()
    two.settle()
    assert two.far.heard.ended == ["q"]
    assert two.head.link.sent.count((FIRST_DATA_LANE, words.ENDED)) == 1


def test_what_is_found_out_meanwhile_is_told_by_the_gateway_s_own_thread() -> None:
    two = TwoMachines([QueuePlan("q", 8)])
    board(two.head).add(1)
    two.head.mover.turn()
    while two.head.link.travel(two.far.receiver):
        pass
    assert two.far.mover.discard()
    assert (1 in cancelled(two.far), two.far.heard.cancelled) == (True, 0)
    two.far.mover.turn()
    two.far.mover.turn()
    assert two.far.heard.cancelled == 1
