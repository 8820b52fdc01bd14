"""Pairing of messages at a joining node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.executor.pairing.aligner import Aligner
from dflow_core.message import Aux, DataFlag, FlowMsg, Member, MsgInfo


def msg(trans_id: int, label: int = 0, flag: int = 0, members: tuple[int, ...] = ()) -> FlowMsg:
    info = MsgInfo(trans_id=trans_id, data_label=label, data_flag=flag)
    return FlowMsg(info, None, Aux(tuple(Member(MsgInfo(trans_id=m)) for m in members)))


def ids(sets: list[tuple[FlowMsg, ...]]) -> list[tuple[int, ...]]:
    return [tuple(m.info.trans_id for m in complete) for complete in sets]


def test_pairs_by_transaction_whatever_the_order_of_arrival() -> None:
    """BC-048."""
    aligner = Aligner(2)
    assert aligner.offer(0, msg(1)) == []
    assert aligner.offer(0, msg(2)) == []
    assert ids(aligner.offer(1, msg(2))) == [(2, 2)]
    assert ids(aligner.offer(1, msg(1))) == [(1, 1)]
    assert aligner.pending == 0


@given(st.permutations([(port, trans_id) for port in range(3) for trans_id in range(1, 6)]))
def test_every_order_of_arrival_gives_every_pair_once(order: list[tuple[int, int]]) -> None:
    aligner = Aligner(3)
    complete = [found for port, trans_id in order for found in aligner.offer(port, msg(trans_id))]
    assert sorted(ids(complete)) == [(t, t, t) for t in range(1, 6)]
    assert aligner.pending == 0


def test_parts_of_one_transaction_pair_by_label() -> None:
    aligner = Aligner(2)
    aligner.offer(0, msg(1, label=1))
    aligner.offer(0, msg(1, label=2))
    (pair,) = aligner.offer(1, msg(1, label=2))
    assert [m.info.data_label for m in pair] == [2, 2]


def test_end_markers_pair_with_end_markers_only() -> None:
    aligner = Aligner(2)
    aligner.offer(0, msg(1, label=0, flag=DataFlag.END))
    (pair,) = aligner.offer(1, msg(1, label=0, flag=DataFlag.END))
    assert all(m.info.data_flag & DataFlag.END for m in pair)


@pytest.mark.parametrize("stream_first", [True, False])
def test_stream_against_single_message_is_an_alignment_error(stream_first: bool) -> None:
    aligner = Aligner(2)
    end, single = msg(1, flag=DataFlag.END), msg(1)
    first, second = ((0, end), (1, single)) if stream_first else ((1, single), (0, end))
    assert aligner.offer(*first) == []
    (failed,) = aligner.offer(*second)
    assert failed[0].aux.error is not None and failed[0].aux.error.kind == "align"
    assert aligner.offer(0, msg(1, label=7)) == [] and aligner.pending == 0


def test_batch_pairs_by_its_head_and_its_other_members_count_as_skipped() -> None:
    aligner = Aligner(2)
    for trans_id in (1, 2, 3):
        aligner.offer(1, msg(trans_id))
    complete = aligner.offer(0, msg(3, members=(1, 2, 3)))
    assert ids(complete) == [(3, 3), (1, 1), (2, 2)]
    assert [bool(pair[0].info.data_flag & DataFlag.SKIP) for pair in complete] == [False, True, True]


def test_failed_batch_fails_every_member() -> None:
    aligner = Aligner(2)
    aligner.offer(1, msg(1))
    aligner.offer(1, msg(2))
    complete = aligner.offer(0, msg(2, flag=DataFlag.ERROR, members=(1, 2)))
    assert all(pair[0].info.data_flag & DataFlag.ERROR for pair in complete) and len(complete) == 2


def test_part_lost_with_a_dead_instance_is_not_waited_for() -> None:
    """BC-061: the other half of a lost pair does not stay for ever."""
    aligner = Aligner(2, dead=[(5, 0, (0,))])
    assert aligner.offer(1, msg(5)) == []
    assert aligner.pending == 0
    aligner.offer(0, msg(6))
    assert ids(aligner.offer(1, msg(6))) == [(6, 6)]


def test_injected_error_after_the_real_message_is_dropped() -> None:
    aligner = Aligner(2)
    aligner.offer(0, msg(1))
    injected = msg(1, flag=DataFlag.ERROR | DataFlag.INJECTED)
    assert aligner.offer(0, injected) == []
    assert len(aligner.offer(1, msg(1))) == 1
    assert aligner.offer(0, replace(injected)) == [] and aligner.pending == 0


def test_single_input_passes_everything_on() -> None:
    aligner = Aligner(1)
    batch = msg(3, members=(1, 2, 3))
    assert aligner.offer(0, batch) == [(batch,)]


def test_batches_with_the_same_members_pair_as_batches() -> None:
    aligner = Aligner(2)
    assert aligner.offer(0, msg(3, members=(1, 2, 3))) == []
    (pair,) = aligner.offer(1, msg(3, members=(1, 2, 3)))
    assert [len(m.aux.members) for m in pair] == [3, 3] and aligner.pending == 0


def test_batches_with_other_members_pair_member_by_member() -> None:
    aligner = Aligner(2)
    aligner.offer(0, msg(3, members=(1, 2, 3)))
    first = aligner.offer(1, msg(2, members=(1, 2)))
    second = aligner.offer(1, msg(3, members=(3,)))
    assert sorted(ids(first + second)) == [(1, 1), (2, 2), (3, 3)] and aligner.pending == 0


def test_single_message_splits_a_waiting_batch() -> None:
    aligner = Aligner(2)
    aligner.offer(0, msg(3, members=(1, 2, 3)))
    complete = [found for t in (2, 1, 3) for found in aligner.offer(1, msg(t))]
    assert sorted(ids(complete)) == [(1, 1), (2, 2), (3, 3)] and aligner.pending == 0


def test_injected_error_for_a_batch_that_had_arrived_is_dropped() -> None:
    aligner = Aligner(2)
    flag = DataFlag.ERROR | DataFlag.INJECTED
    aligner.offer(0, msg(3, members=(1, 2, 3)))
    assert aligner.offer(0, msg(3, flag=flag, members=(1, 2, 3))) == []
    assert len(aligner.offer(1, msg(3, members=(1, 2, 3)))) == 1
    assert aligner.offer(0, msg(3, flag=flag, members=(1, 2, 3))) == [] and aligner.pending == 0


def test_message_that_comes_after_the_one_put_in_for_it_is_let_go():
    """A dead executor's message may still lie in a queue when the error for it is there; nothing waits for ever."""
    aligner = Aligner(2)
    put_in = DataFlag.ERROR | DataFlag.INJECTED | DataFlag.NULL
    assert aligner.offer(0, msg(7, flag=put_in)) == []
    assert aligner.offer(0, msg(7)) == []  # the one it was put in for
    assert len(aligner.offer(1, msg(7))) == 1
    assert aligner.pending == 0
    assert aligner.offer(1, msg(8)) == []
    assert len(aligner.offer(0, msg(8, flag=put_in))) == 1
    assert not aligner.may_pair_outside(8) and aligner.may_pair_outside(9)
    assert aligner.offer(0, msg(8)) == [] and aligner.pending == 0
    assert aligner.offer(0, msg(8, flag=put_in)) == [] and aligner.pending == 0
