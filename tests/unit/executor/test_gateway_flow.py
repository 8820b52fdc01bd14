"""Credits, ends, frames and boards of gateways, without a queue or a link."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.builtin_transport import InprocTransport
from dflow_core.errors import DflowError
from dflow_core.executor.cancel_board import SLOTS, BoardCopy, CancelBoard, CancelReader, no_words
from dflow_core.executor.gateway import words
from dflow_core.executor.gateway.flow import Incoming, Outgoing, window_of
from dflow_core.executor.gateway.intake import End, Frame, Intake
from dflow_core.message import HeapBlock
from dflow_core.spi import GroupConfig

BLOCK = HeapBlock(1)


@pytest.mark.parametrize(("depth", "window"), [(1, 1), (2, 2), (8, 8), (9, 8), (1000, 8)])
def test_the_window_is_as_deep_as_the_queue_and_never_large(depth: int, window: int) -> None:
    assert window_of(depth) == window


@pytest.mark.parametrize("window", [1, 2, 3, 5, 8])
def test_the_first_credits_are_the_window(window: int) -> None:
    incoming, outgoing = Incoming(window), Outgoing()
    assert (outgoing.may_send, outgoing.is_quiet) == (False, True)
    outgoing.grant(incoming.owed())
    assert (outgoing.credit, outgoing.may_send, outgoing.is_quiet) == (window, True, True)
    outgoing.credit -= 1
    assert not outgoing.is_quiet


@pytest.mark.parametrize(("window", "kept_back"), [(1, 0), (2, 0), (3, 1), (4, 1), (7, 3), (8, 3)])
def test_credits_are_kept_back_until_they_are_half_a_window(window: int, kept_back: int) -> None:
    incoming = Incoming(window)
    assert incoming.owed() == window
    for taken in range(1, kept_back + 2):
        incoming.waiting.append(BLOCK)
        incoming.take()
        assert incoming.owed() == (0 if taken <= kept_back else taken)
    assert incoming.owed(all_of_it=True) == 0


def test_all_credits_are_given_when_asked_for() -> None:
    incoming = Incoming(8)
    incoming.owed()
    incoming.waiting.append(BLOCK)
    incoming.take()
    assert (incoming.owed(), incoming.owed(all_of_it=True), incoming.owed(all_of_it=True)) == (0, 1, 0)


@given(st.integers(1, 8), st.lists(st.sampled_from(["send", "take", "grant", "grant all"]), max_size=60))
def test_no_credit_is_lost_or_made(window: int, steps: list[str]) -> None:
    incoming, outgoing = Incoming(window), Outgoing()
    outgoing.grant(incoming.owed())
    for step in steps:
        if step == "send" and outgoing.may_send:
            outgoing.credit -= 1
            incoming.waiting.append(BLOCK)
        elif step == "take" and incoming.waiting:
            incoming.take()
        elif step.startswith("grant"):
            outgoing.grant(incoming.owed(all_of_it=step == "grant all"))
        assert 0 <= outgoing.credit <= window
        assert len(incoming.waiting) <= window - outgoing.credit
        assert not (outgoing.is_quiet and incoming.waiting)
    while incoming.waiting:
        incoming.take()
    outgoing.grant(incoming.owed())
    assert outgoing.may_send  # what is kept back never keeps the other end from sending
    outgoing.grant(incoming.owed(all_of_it=True))
    assert outgoing.is_quiet


def test_the_end_comes_after_the_last_message_and_once() -> None:
    incoming = Incoming(4)
    assert not incoming.is_over()
    incoming.waiting.append(BLOCK)
    incoming.end()
    assert not incoming.is_over()
    incoming.take()
    assert (incoming.is_over(), incoming.is_over()) == (True, False)


def test_nothing_is_sent_after_the_end() -> None:
    outgoing = Outgoing()
    outgoing.grant(2)
    outgoing.has_ended = True
    assert not outgoing.may_send


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.integers(1, 8)))
def test_credits_are_read_as_they_were_written(credits: dict[int, int]) -> None:
    frame = words.granted(credits)
    assert frame.startswith(words.GRANTED)
    assert dict(words.credits_of(frame)) == credits


def test_credits_of_as_many_queues_as_a_group_may_have_fit_into_a_head() -> None:
    assert len(words.granted(dict.fromkeys(range(GroupConfig().max_queues), 8))) < 64 << 10


# ------------------------------------------------------------------------------------------------------ intake


class Bell:
    """Counts how often it was rung."""

    rung = 0

    def ring(self) -> None:
        self.rung += 1


def intake(memory: int = 1 << 20) -> tuple[Intake, Bell]:
    bell = Bell()
    return Intake(InprocTransport().create_group(GroupConfig(memory_limit=memory)), bell.ring), bell


def brought(intake: Intake, lane: int, data: bytes) -> None:
    intake.room_for(lane, len(data))[:] = data
    intake.arrived(lane, b"")


def test_frames_come_out_in_the_order_they_were_complete_in() -> None:
    taker, _ = intake()
    slow = taker.room_for(2, 3)
    brought(taker, 3, b"quick")
    taker.arrived(1, b"G")
    slow[:] = b"big"
    taker.arrived(2, b"")
    frames = [item for item in taker.take() if isinstance(item, Frame)]
    assert [(frame.lane, frame.head) for frame in frames] == [(3, b""), (1, b"G"), (2, b"")]
    assert [frame.block and bytes(frame.block.array()) for frame in frames] == [b"quick", None, b"big"]
    assert taker.take() == []


def test_the_bell_is_rung_for_the_first_frame_only() -> None:
    taker, bell = intake()
    for _ in range(3):
        taker.arrived(1, b"G")
    assert bell.rung == 1
    taker.take()
    taker.arrived(1, b"G")
    assert bell.rung == 2


def test_part_of_a_message_counts_as_something() -> None:
    taker, _ = intake()
    assert taker.is_empty
    room = taker.room_for(2, 4)
    assert not taker.is_empty
    room[:] = b"done"
    taker.arrived(2, b"")
    assert not taker.is_empty
    taker.take()
    assert taker.is_empty


def test_the_end_comes_after_what_arrived_before_it_and_without_what_came_in_part() -> None:
    taker, _ = intake()
    brought(taker, 2, b"whole")
    taker.room_for(2, 100)
    error = DflowError("lost")
    taker.ended(error)
    first, last = taker.take()
    assert isinstance(first, Frame)
    assert last == End(error)
    assert taker.is_empty


def test_what_follows_in_a_lane_does_not_take_the_memory_that_the_first_waits_for() -> None:
    taker, _ = intake(memory=64 << 10)
    brought(taker, 2, bytes(100 << 10))  # never fits
    brought(taker, 2, bytes(10))
    brought(taker, 3, bytes(10))
    kinds = [(item.lane, type(item.block) is HeapBlock) for item in taker.take() if isinstance(item, Frame)]
    assert kinds == [(2, True), (2, True), (3, False)]
    taker.settled(2)
    brought(taker, 2, bytes(10))
    taker.settled(2)
    taker.settled(2)
    brought(taker, 2, bytes(10))
    kinds = [(item.lane, type(item.block) is HeapBlock) for item in taker.take() if isinstance(item, Frame)]
    assert kinds == [(2, True), (2, False)]


def test_a_closed_intake_takes_nothing_and_has_room_all_the_same() -> None:
    taker, bell = intake()
    brought(taker, 2, b"before")
    taker.close()
    before = bell.rung
    brought(taker, 2, b"after")
    taker.ended(None)
    assert (taker.take(), taker.is_empty, bell.rung) == ([], True, before)


# ------------------------------------------------------------------------------------------ cancelled transactions


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 600)), max_size=80), st.integers(1, 7))
def test_a_copied_board_says_what_the_board_says(changes: list[tuple[bool, int]], every: int) -> None:
    theirs, ours = no_words(), no_words()
    board, copy, reader = CancelBoard(theirs), BoardCopy(ours), CancelReader(ours)
    on_it: set[int] = set()
    for number, (is_new, trans_id) in enumerate(changes):
        if is_new:
            on_it.discard(board.add(trans_id))
            on_it.add(trans_id)
        else:
            board.remove(trans_id)
            on_it.discard(trans_id)
        if number % every == 0:
            copy.write(BoardCopy(theirs).pack())
            assert {i for i in range(1, 601) if i in reader} == on_it


def test_a_full_board_fits_into_a_head_and_an_empty_one_is_small() -> None:
    words_ = no_words()
    board = CancelBoard(words_)
    assert len(BoardCopy(words_).pack()) < 100
    for trans_id in range(1, SLOTS + 1):
        board.add(trans_id)
    assert len(BoardCopy(words_).pack()) < 64 << 10


def test_each_copy_is_news() -> None:
    theirs, ours = no_words(), no_words()
    copy, reader = BoardCopy(ours), CancelReader(ours)
    CancelBoard(theirs).add(5)
    for _ in range(2):  # also where it says the same
        copy.write(BoardCopy(theirs).pack())
        assert (reader.has_news(), reader.has_news()) == (True, False)
    assert np.count_nonzero(ours[8:]) == 1
