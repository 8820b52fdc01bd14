"""Status requests, their answers, and calls that take too long (BC-063)."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from dflow_core.deploy.supervision.status_board import StatusBoard
from dflow_core.model import InstancePlan, ProcessPlan, UdfModel
from dflow_core.model.control_serde import InstanceState, Status, StatusRequest
from dflow_core.types import NodeOptions


class FakeLoop:
    """Timers that come when told."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, object]] = []

    def after(self, seconds: float, call: object) -> None:
        self.timers.append((seconds, call))

    def run(self) -> None:
        timers, self.timers = self.timers, []
        for _, call in timers:
            call()


class Setup:
    """A board, and one process with node `n` whose calls may take some seconds."""

    def __init__(self, limit: float) -> None:
        self.loop, self.told, self.sent = FakeLoop(), [], []
        models = {"n": UdfModel(name="n", engine="UDF", options=NodeOptions(call_timeout=limit))}
        self.board = StatusBoard(self.loop, models, lambda member, why: self.told.append(why))
        instance = InstancePlan("n", 0, 1, "p", "cpu:0", 1, (), ())
        connection = SimpleNamespace(send=self.sent.append)
        self.member = FakeMember(ProcessPlan("p", "UDF", "", (instance,)), SimpleNamespace(connection=connection))

    def answer(self, number: int, **state: object) -> None:
        self.board.take(self.member, Status(number, (InstanceState("n", 0, **state),)))


class FakeMember:
    """What the board uses of a member."""

    def __init__(self, plan: ProcessPlan, process: object) -> None:
        self.plan, self.process, self.states = plan, process, {}


@pytest.fixture
def setup() -> Setup:
    """With a limit of 2 s."""
    return Setup(2.0)


def test_an_answer_is_kept_and_whoever_waits_is_told(setup):
    answered = threading.Event()
    setup.board.ask_all([setup.member], answered)
    assert setup.sent == [StatusRequest(1)] and not answered.is_set()
    setup.answer(1, calls=3, busy=0.5)
    assert answered.is_set()
    assert setup.member.states["n", 0].calls == 3


def test_older_answers_do_not_count(setup):
    answered = threading.Event()
    setup.board.ask(setup.member)
    setup.board.ask_all([setup.member], answered)
    setup.answer(1)
    assert not answered.is_set()
    setup.answer(2)
    assert answered.is_set()


def test_nobody_to_ask_is_answered_at_once(setup):
    answered = threading.Event()
    setup.board.ask_all([], answered)
    assert answered.is_set()


def test_a_process_that_is_gone_keeps_nobody_waiting(setup):
    answered = threading.Event()
    setup.board.ask_all([setup.member], answered)
    setup.board.forget(setup.member)
    assert answered.is_set()


def test_a_call_over_its_limit_is_told(setup):
    setup.answer(0, current=(7, 1.9))
    assert setup.told == []
    setup.answer(0, current=(7, 2.1))
    assert setup.told == ["a call of n#0 (transaction 7) exceeded its limit of 2 s"]


def test_a_process_is_asked_regularly(setup):
    setup.board.watch(setup.member)
    assert len(setup.sent) == 1 and setup.loop.timers[0][0] == 0.5
    setup.loop.run()
    assert len(setup.sent) == 1, "one request at a time"
    setup.answer(1)
    setup.loop.run()
    assert len(setup.sent) == 2


def test_no_answer_over_the_limit_means_a_call_that_holds_the_interpreter(setup, monkeypatch):
    setup.board.watch(setup.member)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2.5)
    setup.loop.run()
    assert setup.told == ["a call exceeded its limit of 2 s and kept the whole interpreter busy"]
    assert not setup.loop.timers


def test_watching_ends_with_the_process(setup):
    setup.board.watch(setup.member)
    setup.member.process = None
    setup.loop.run()
    assert not setup.loop.timers


def test_without_a_limit_nobody_is_asked():
    setup = Setup(0.0)
    setup.board.watch(setup.member)
    assert not setup.sent
    setup.answer(0, current=(7, 1e6))
    assert not setup.told
