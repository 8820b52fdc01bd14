"""Pairing with limits, on a clock of its own: runtime-semantics.md section 8, steps 2 and 3, and section 10."""

from __future__ import annotations

import pytest

from dflow_core.executor.pairing.limited_aligner import LimitedAligner, Overdue
from dflow_core.message import Aux, DataFlag, FlowMsg, Member, MsgInfo
from dflow_core.testing.clock import FakeClock
from dflow_core.types import AlignLimits


def msg(trans_id: int, label: int = 0, flag: int = 0, members: tuple[int, ...] = ()) -> FlowMsg:
    info = MsgInfo(trans_id=trans_id, data_label=label, data_flag=flag)
    return FlowMsg(info, None, Aux(tuple(Member(MsgInfo(trans_id=m)) for m in members)))


class Rig:
    """An aligner with a clock."""

    def __init__(self, ports: int = 2, *, cache: int = 8, timeout: float = 1.0, drop: bool = False) -> None:
        self.clock = FakeClock()
        self.aligner = LimitedAligner(ports, (), AlignLimits(cache, timeout, drop), self.clock)

    def offer(self, port: int, trans_id: int, label: int = 0, **more: object) -> list[int]:
        found = self.aligner.offer(port, msg(trans_id, label, **more))  # type: ignore[arg-type]
        return [complete[0].info.trans_id for complete in found]

    def overdue(self) -> list[tuple[int, tuple[int, ...]]]:
        """What is given up: transaction, and the ports that had come."""
        found: list[tuple[int, tuple[int, ...]]] = []
        while (one := self.aligner.take_overdue()) is not None:
            ports = tuple(port for port, m in enumerate(one.messages) if m is not None)
            found.append((one.came[0].info.trans_id, ports))
        return found


def test_a_set_is_given_up_when_it_is_as_old_as_the_limit_and_not_before() -> None:
    rig = Rig()
    rig.offer(1, 4)
    assert rig.aligner.deadline() == rig.clock() + 1.0
    rig.clock.advance(0.99)
    assert rig.overdue() == []
    rig.clock.advance(0.01)
    assert rig.overdue() == [(4, (1,))]
    assert (rig.aligner.pending, rig.aligner.deadline()) == (0, None)


def test_of_several_that_are_too_old_the_lowest_key_goes_first() -> None:
    rig = Rig()
    for trans_id, label in ((9, 0), (3, 2), (3, 1), (5, 0)):
        rig.offer(0, trans_id, label)
    rig.clock.advance(2)
    first = rig.aligner.take_overdue()
    assert isinstance(first, Overdue) and first.came[0].info.key == (3, 1)
    assert [key for key, _ in rig.overdue()] == [3, 5, 9]


def test_age_counts_from_the_first_message_of_a_set() -> None:
    rig = Rig(3)
    rig.offer(0, 1)
    rig.clock.advance(0.6)
    rig.offer(1, 1)
    rig.clock.advance(0.4)
    assert rig.overdue() == [(1, (0, 1))]


def test_without_a_time_limit_only_the_number_counts_and_the_lowest_goes() -> None:
    rig = Rig(cache=2, timeout=0)
    for trans_id in (7, 5, 6):
        rig.offer(0, trans_id)
    rig.clock.advance(1e6)
    assert rig.aligner.deadline() == 0.0
    assert rig.overdue() == [(5, (0,))]
    assert rig.aligner.deadline() is None


def test_a_late_message_of_what_was_given_out_is_dropped_once_and_the_next_one_counts() -> None:
    rig = Rig()
    rig.offer(0, 1)
    rig.clock.advance(1)
    assert rig.overdue() == [(1, (0,))]
    assert (rig.offer(1, 1), rig.aligner.pending, rig.aligner.late) == ([], 0, 1)
    rig.offer(0, 1)  # the id is used again
    assert rig.offer(1, 1) == [1]


def test_where_sets_are_dropped_all_there_is_of_the_transaction_goes_too() -> None:
    rig = Rig(drop=True)
    rig.offer(0, 1, 1)
    rig.clock.advance(0.5)
    rig.offer(0, 1, 2)
    rig.clock.advance(0.5)
    assert rig.overdue() == [(1, (0,))]
    assert rig.aligner.pending == 0
    assert (rig.offer(1, 1, 1), rig.offer(1, 1, 2), rig.aligner.late) == ([], [], 2)


def test_batches_are_given_up_as_the_messages_they_stand_for() -> None:
    rig = Rig()
    rig.offer(0, 1, members=(1, 2, 3))
    rig.clock.advance(1)
    assert rig.overdue() == [(1, (0,)), (2, (0,)), (3, (0,))]
    assert rig.aligner.deadline() is None


def test_a_batch_that_pairs_in_time_leaves_nothing_behind() -> None:
    rig = Rig()
    rig.offer(0, 1, members=(1, 2))
    assert rig.offer(1, 1, members=(1, 2)) == [1]
    assert (rig.aligner.pending, rig.aligner.deadline()) == (0, None)


def test_several_messages_of_one_key_and_port_are_given_up_one_by_one() -> None:
    rig = Rig()
    rig.offer(0, 1)
    rig.offer(0, 1)
    rig.clock.advance(1)
    assert rig.overdue() == [(1, (0,)), (1, (0,))]


def test_the_end_of_a_stream_has_a_key_of_its_own() -> None:
    rig = Rig()
    rig.offer(0, 1, flag=DataFlag.END | DataFlag.NULL)
    rig.clock.advance(1)
    found = rig.aligner.take_overdue()
    assert found is not None and found.came[0].info.data_flag & DataFlag.END


def test_nothing_is_given_up_of_what_was_thrown_away() -> None:
    rig = Rig(cache=1)
    for trans_id, members in ((1, ()), (2, ()), (3, (3, 4))):
        rig.offer(0, trans_id, members=members)
    rig.aligner.clear()
    rig.clock.advance(2)
    assert (rig.overdue(), rig.aligner.deadline(), rig.aligner.pending) == ([], None, 0)
    rig.offer(0, 5)
    assert rig.offer(1, 5) == [5]


@pytest.mark.parametrize("members", [(), (1, 2)])
def test_what_is_poisoned_is_dropped_until_that_is_taken_back(members: tuple[int, ...]) -> None:
    rig = Rig()
    rig.offer(0, 1, members=members)
    rig.aligner.poison(1)
    assert rig.aligner.pending == max(0, len(members) - 1)  # the other member still waits
    assert rig.offer(1, 1) == []
    rig.aligner.unpoison(1)
    rig.offer(0, 1)
    assert rig.offer(1, 1) == [1]


def test_caches_return_to_nothing_after_ten_thousand_halves() -> None:
    """BC-052."""
    rig = Rig(cache=64, drop=True)
    given_up = 0
    for trans_id in range(1, 10_001):
        rig.offer(0, trans_id)
        given_up += len(rig.overdue())
        assert rig.aligner.pending <= 64
    rig.clock.advance(1)
    assert given_up + len(rig.overdue()) == 10_000
    assert rig.aligner.pending == 0
