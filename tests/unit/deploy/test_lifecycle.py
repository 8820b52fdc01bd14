"""The table of a process's life: events in, instructions out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.deploy.supervision.lifecycle import (
    Begin,
    Ended,
    GivenUp,
    GiveUp,
    Kill,
    Launch,
    Lifecycle,
    Loaded,
    NotLoaded,
    Overdue,
    Recover,
    State,
    StopAsked,
    Timer,
    Unable,
    WakeAfter,
)
from dflow_core.deploy.supervision.restart_policy import RestartPolicy
from dflow_core.model.control_serde import Failure

CRASH = Ended("was ended by signal 11")
BROKEN = Failure("ValueError", "no", "Traceback", "node")


def started(restarts: int = 3) -> Lifecycle:
    """One that is starting."""
    life = Lifecycle("p", RestartPolicy(restarts=restarts))
    assert life.handle(Begin(), 0.0) == [Launch()]
    assert life.state is State.STARTING
    return life


def running(restarts: int = 3) -> Lifecycle:
    """One that runs since second 0."""
    life = started(restarts)
    assert life.handle(Loaded(), 0.0) == []
    assert life.state is State.RUNNING
    return life


def crash(life: Lifecycle, now: float) -> list[object]:
    """Let it crash and start again; what it said to the crash."""
    said = life.handle(CRASH, now)
    if life.state is State.BACKOFF:
        assert life.handle(Timer(), now) == [Launch()]
        life.handle(Loaded(), now)
    return list(said)


def test_a_crash_is_recovered_and_started_again():
    life = running()
    assert life.handle(CRASH, 5.0) == [Recover("its process was ended by signal 11"), WakeAfter(0.0)]
    assert life.state is State.BACKOFF
    assert life.handle(Timer(), 5.0) == [Launch()]
    assert (life.state, life.restarted) == (State.STARTING, 1)


def test_short_lives_are_restarted_ever_later():
    life = running(restarts=100)
    delays = [crash(life, 0.1)[1].seconds for _ in range(8)]
    assert delays == [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert crash(life, 10.0)[1] == WakeAfter(0.0)


def test_too_many_crashes_within_a_minute_are_given_up():
    """BC-098."""
    life = running(restarts=2)
    crash(life, 0.0)
    crash(life, 1.0)
    recover, give_up = crash(life, 2.0)
    assert life.state is State.FAILED and life.settled
    assert recover == Recover("its process was ended by signal 11")
    assert give_up.started and life.given_up == GivenUp(2.0, give_up.failure.message)
    assert "started again 2 times within 60 s, and `restarts=2` allows no more" in give_up.failure.message


def test_one_whose_work_others_do_is_not_started_again():
    life = running()
    recover, give_up = life.handle(Ended("was ended by signal 9", is_spare=True), 5.0)
    assert isinstance(recover, Recover) and give_up.started
    assert life.state is State.FAILED and life.restarted == 0
    why = "its process was ended by signal 9; `when_lost='degrade'` leaves its work to other instances"
    assert life.given_up == GivenUp(5.0, why) and give_up.failure.message == why


def test_crashes_far_apart_are_not_counted():
    life = running(restarts=1)
    for number in range(5):
        crash(life, number * (RestartPolicy().window + 1))
    assert life.state is State.RUNNING
    assert life.restarted == 5


def test_without_restarts_the_first_crash_is_the_last():
    _, give_up = running(restarts=0).handle(CRASH, 0.0)
    assert "it was not started again" in give_up.failure.message


def test_a_first_start_that_fails_is_not_repeated():
    """BC-098."""
    life = started()
    assert life.handle(NotLoaded(BROKEN), 1.0) == [Kill()]
    assert life.handle(CRASH, 1.0) == [Recover("no"), GiveUp(BROKEN, started=False)]
    assert life.state is State.FAILED


def test_a_crash_while_starting_tells_how_it_ended():
    _, give_up = started().handle(CRASH, 1.0)
    assert give_up == GiveUp(Failure("lost", "its process was ended by signal 11"), started=False)


def test_a_restart_that_does_not_load_is_repeated_within_the_limit():
    life = running(restarts=2)
    life.handle(CRASH, 0.0)
    life.handle(Timer(), 0.0)
    life.handle(NotLoaded(BROKEN), 0.0)
    assert life.handle(CRASH, 0.0) == [Recover("no"), WakeAfter(0.05)]
    life.handle(Timer(), 0.0)
    life.handle(NotLoaded(BROKEN), 0.0)
    give_up = life.handle(CRASH, 0.0)[1]
    assert give_up.failure.traceback == "Traceback" and give_up.started


def test_an_overdue_process_is_killed_and_its_losses_say_why():
    life = running()
    assert life.handle(Overdue("a call took too long"), 0.0) == [Kill()]
    assert life.handle(Overdue("and again"), 0.0) == [Kill()]
    assert life.handle(CRASH, 0.0)[0] == Recover("a call took too long")


def test_the_reason_of_one_life_is_not_told_of_the_next():
    life = running()
    life.handle(Overdue("slow"), 0.0)
    crash(life, 0.0)
    assert life.handle(CRASH, 0.0)[0] == Recover("its process was ended by signal 11")


def test_a_process_that_worked_off_everything_stops():
    life = running()
    assert life.handle(Ended("ended", finished=True), 0.0) == [Recover("its process ended")]
    assert life.state is State.STOPPED and life.given_up is None


def test_a_fatal_error_ends_the_graph():
    life = running()
    assert life.handle(Unable(BROKEN), 0.0) == [Kill(), GiveUp(BROKEN, started=True)]
    assert life.given_up == GivenUp(0.0, "no")
    assert life.handle(CRASH, 0.0) == [Recover("the graph has failed")]
    assert life.state is State.FAILED


@pytest.mark.parametrize("make", [started, running])
def test_a_stop_waits_for_the_end(make):
    life = make()
    assert life.handle(StopAsked(), 0.0) == []
    assert not life.settled
    assert life.handle(CRASH, 0.0) == [Recover("the graph was closed")]
    assert life.state is State.STOPPED


def test_a_stop_between_two_lives_is_final():
    life = running()
    life.handle(CRASH, 0.0)
    life.handle(StopAsked(), 0.0)
    assert life.handle(Timer(), 0.0) == []
    assert life.state is State.STOPPED


def test_what_cannot_follow_raises_with_the_history():
    life = running()
    with pytest.raises(AssertionError, match=r"p: no rule .* IDLE Begin.*STARTING Loaded.*RUNNING Loaded"):
        life.handle(Loaded(), 0.0)


EVENTS = [
    Begin(), Loaded(), NotLoaded(BROKEN), Unable(BROKEN), Overdue("x"), CRASH, Ended("y", True), Timer(), StopAsked(),
]


@given(st.lists(st.sampled_from(EVENTS), max_size=60), st.integers(0, 3))
def test_no_order_of_events_launches_twice_or_after_the_end(events, restarts):
    life = Lifecycle("p", RestartPolicy(restarts=restarts))
    alive = False
    for now, event in enumerate(events):
        final = life.state in (State.FAILED, State.STOPPED)
        if isinstance(event, Ended) and not alive:
            continue
        try:
            said = life.handle(event, float(now))
        except AssertionError:
            continue
        alive = alive and not isinstance(event, Ended)
        if Launch() in said:
            assert not alive and not final
            alive = True
        assert isinstance(event, Ended) == any(isinstance(i, Recover) for i in said)
