"""The harness drives functions by the executor's rules, and notices transactions that do not end once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dflow_core.message import FlowMsg, Member, MsgInfo, decode, root_token
from dflow_core.spi import FlowFunc, FuncParams, RunContext, UdfEntry
from dflow_core.testing.clock import FakeClock
from dflow_core.testing.func_harness import FuncHarness


class Scale(FlowFunc):
    """Multiplies; fails on text."""

    def init(self, params: FuncParams) -> None:
        self.factor = params.attrs.get("factor", 2)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        context.send(0, decode(inputs[0]) * self.factor)  # type: ignore[operator]


class Silent(FlowFunc):
    """Sends nothing."""

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Nothing."""


class Twice(FlowFunc):
    """Sends every value twice under one head."""

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        for _ in range(2):
            context.send(0, 1, like=FlowMsg(inputs[0].info))


class Late(FlowFunc):
    """Holds one message for a second."""

    held: FlowMsg | None = None
    at: float | None = None

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        self.held, self.at = inputs[0], context.now() + 1.0

    def deadline(self) -> float | None:
        return self.at

    def on_timer(self, context: RunContext) -> None:
        assert self.held is not None
        context.send(0, decode(self.held), like=self.held)
        self.at = None


class Spinning(Late):
    """Leaves its deadline where it was."""

    def on_timer(self, context: RunContext) -> None:
        """Nothing."""


def test_value_goes_through_and_keeps_its_head() -> None:
    h = FuncHarness(Scale(), FuncParams("f", attrs={"factor": 3}))
    (sent,) = h.feed(np.arange(3), user_data=b"u", start_time=4)
    assert sent.array.tolist() == [0, 3, 6]
    assert (sent.kind, sent.output, sent.info.trans_id, sent.info.start_time) == ("data", 0, 1, 4)
    assert h.data() == [sent]
    h.check()


def test_transaction_ids_count_up_unless_given() -> None:
    h = FuncHarness(Scale())
    h.feed(1)
    h.feed(1, trans_id=9)
    h.feed(1)
    assert [s.info.trans_id for s in h.sent] == [1, 9, 10]
    assert h.last_id == 10


def test_exception_becomes_an_error_message() -> None:
    h = FuncHarness(Scale(), FuncParams("f"))
    (sent,) = h.feed({"not": "a number"})
    assert (sent.kind, sent.error.error_type, sent.error.node) == ("error", "TypeError", "f")
    h.check()


def test_nothing_sent_becomes_a_skip() -> None:
    h = FuncHarness(Silent())
    assert [s.kind for s in h.feed(1)] == ["skip"]
    h.check()


def test_function_that_forgets_what_it_holds_is_noticed() -> None:
    h = FuncHarness(Silent(), holds_inputs=True)
    h.feed(1)
    with pytest.raises(AssertionError, match=r"output 0: transactions \[1\] have not ended"):
        h.check()


def test_function_that_ends_a_transaction_twice_is_noticed() -> None:
    h = FuncHarness(Twice(), holds_inputs=True)
    h.feed(1)
    with pytest.raises(AssertionError, match="transaction 1: sent data, but it had ended"):
        h.check()


def test_timer_goes_off_at_its_deadline() -> None:
    h = FuncHarness(Late(), holds_inputs=True)
    h.feed(5)
    assert h.advance(0.5) == []
    (sent,) = h.advance(3.0)
    assert (sent.value, sent.at) == (5, 1001.0)
    assert h.clock.now == 1003.5
    h.check()


def test_timer_that_would_spin_is_noticed() -> None:
    h = FuncHarness(Spinning(), holds_inputs=True)
    h.feed(5)
    with pytest.raises(AssertionError, match="would spin"):
        h.advance(2.0)


def test_members_of_a_batch_count_as_fed() -> None:
    h = FuncHarness(Silent(), holds_inputs=True)
    h.feed(1, members=[Member(MsgInfo(1, token=root_token(1))), Member(MsgInfo(2, token=root_token(2)))], trans_id=2)
    with pytest.raises(AssertionError, match=r"\[1, 2\]"):
        h.check()


def test_registered_udf_is_made_with_its_parameters() -> None:
    h = FuncHarness.of(UdfEntry("scale", Scale), {"factor": 10})
    assert h.feed(np.int64(2))[0].value == 20
    h.stop()
    h.close()


def test_wrong_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 values, got 2"):
        FuncHarness(Scale()).feed(1, 2)


def test_clock_moves_only_forward() -> None:
    clock = FakeClock(5.0)
    assert (clock(), clock.advance(0.5), clock.now) == (5.0, 5.5, 5.5)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


def test_error_of_something_else_is_not_there() -> None:
    (sent,) = FuncHarness(Scale()).feed(1)
    with pytest.raises(AssertionError, match="not an error: data"):
        _ = sent.error
