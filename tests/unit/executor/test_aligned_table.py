"""Alignment of results: runtime-semantics.md section 8, for the caller's transactions."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_core.errors import AlignmentError, DflowError, LateError, MissingError, UsageError
from dflow_core.executor.caller.aligned_table import AlignedTable
from dflow_core.executor.outcomes import Channel, Outcome
from dflow_core.message import DataFlag, FlowMsg, HeapBlock, MsgInfo, encode, root_token
from dflow_core.testing.clock import FakeClock
from dflow_core.types import AlignLimits


class Rig:
    """A table with two inputs and two outputs."""

    def __init__(self, cache: int = 8, timeout: float = 1.0, drop: bool = False) -> None:
        self.clock = FakeClock()
        self.table = AlignedTable(2, ("a", "b"), AlignLimits(cache, timeout, drop), clock=self.clock)
        self.channel = Channel()

    def begin(self, trans_id: int, ports: tuple[int, ...] = (0, 1)) -> None:
        self.table.begin(ports, trans_id, self.channel)

    def arrive(self, output: int, trans_id: int, flag: int = 0) -> None:
        info = MsgInfo(trans_id, data_flag=flag, token=root_token(trans_id))
        value = np.float64(trans_id) if not flag else None
        self.table.arrive(output, encode(value, info, HeapBlock) if value is not None else FlowMsg(info))

    def outcomes(self) -> list[Outcome]:
        self.table.expire()
        found = list(self.channel.outcomes)
        self.channel.outcomes.clear()
        return found

    def error(self) -> DflowError:
        (outcome,) = self.outcomes()
        assert outcome.error is not None and outcome.last
        return outcome.error


def test_a_result_that_waits_too_long_for_the_others_ends_its_transaction_with_what_there_is() -> None:
    rig = Rig()
    rig.begin(1)
    rig.arrive(0, 1)
    assert rig.table.deadline() == rig.clock() + 1
    rig.clock.advance(1)
    error = rig.error()
    assert isinstance(error, LateError) and not isinstance(error, MissingError)
    assert error.outputs == (1.0, None)
    assert error.message == "output b did not come within 1 s of the first of the results"
    assert (rig.table.in_flight, rig.table.deadline()) == (0, None)
    rig.arrive(1, 1)
    assert (rig.outcomes(), rig.table.counters.late) == ([], 1)


def test_dropped_results_are_not_in_the_error() -> None:
    rig = Rig(drop=True)
    rig.begin(1)
    rig.arrive(0, 1)
    rig.clock.advance(1)
    error = rig.error()
    assert isinstance(error, AlignmentError) and error.outputs == ()


def test_too_many_incomplete_results_give_up_the_lowest_transaction() -> None:
    rig = Rig(cache=1, timeout=0)
    for trans_id in (1, 2):
        rig.begin(trans_id)
    for trans_id in (2, 1):
        rig.arrive(0, trans_id)
    assert rig.error().trans_id == 1
    rig.arrive(1, 2)
    (outcome,) = rig.outcomes()
    assert outcome.error is None and outcome.trans_id == 2


def test_a_branch_that_is_not_taken_is_no_late_part() -> None:
    rig = Rig()
    rig.begin(1)
    rig.arrive(0, 1)
    rig.arrive(1, 1, DataFlag.SKIP | DataFlag.NULL)
    rig.clock.advance(5)
    (outcome,) = rig.outcomes()
    assert outcome.error is None and outcome.messages[1] is None


def test_a_part_that_cannot_come_because_its_input_was_not_fed_is_missing() -> None:
    rig = Rig()
    rig.begin(1, (0,))
    rig.arrive(0, 1)
    rig.clock.advance(1)
    error = rig.error()
    assert isinstance(error, MissingError) and "not fed: 1" in error.message


def test_what_is_fed_after_its_transaction_has_ended_is_late_and_opens_nothing() -> None:
    rig = Rig()
    rig.begin(1, (0,))
    rig.arrive(0, 1)
    rig.clock.advance(1)
    rig.error()
    assert rig.table.next_id((1,)) == 1
    rig.begin(1, (1,))
    assert (rig.table.in_flight, rig.table.counters.late, rig.table.counters.fed) == (0, 1, 1)


def test_an_id_that_was_given_up_cannot_be_used_again() -> None:
    """BC-050: its rest may still be under way."""
    rig = Rig()
    rig.begin(1)
    rig.arrive(0, 1)
    rig.clock.advance(1)
    rig.error()
    with pytest.raises(UsageError, match="transaction id 1 was given up"):
        rig.table.next_id((0, 1), 1)
    assert rig.table.next_id((0, 1), 2) == 2
