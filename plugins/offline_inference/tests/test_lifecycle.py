"""The life of a request: what may follow what, and that it ends once."""

from __future__ import annotations

import itertools
import pickle
import threading

import pytest

from dflow_offline_inference.requests import (
    ENDS,
    TABLE,
    DeadlineError,
    Lifecycle,
    Request,
    RequestFailedError,
    State,
    TransitionError,
)

WAY = {
    State.WAITING: [], State.READY: [State.READY], State.RUNNING: [State.READY, State.RUNNING],
    State.DONE: [State.READY, State.RUNNING, State.DONE], State.ERROR: [State.ERROR],
    State.CANCELLED: [State.READY, State.CANCELLED],
}


def at(state: State) -> Lifecycle:
    """A life that has come to a state."""
    life = Lifecycle(7, 1.0)
    for step, to in enumerate(WAY[state]):
        life.change(to, 1.5 + step)
    return life


@pytest.mark.parametrize(("before", "to"), list(itertools.product(State, State)))
def test_the_table_says_what_may_follow(before: State, to: State) -> None:
    life = at(before)
    if to in TABLE[before]:
        life.change(to, 9.0)
        assert life.state is to and life.history[-1] == (to, 9.0)
    else:
        with pytest.raises(TransitionError):
            life.change(to, 9.0)
        assert life.state is before


def test_the_table_is_the_one_of_the_design() -> None:
    ends = {State.DONE, State.ERROR, State.CANCELLED}
    assert ends == ENDS
    assert all(State.CANCELLED in following for state, following in TABLE.items() if state not in ends)
    assert [state for state, following in TABLE.items() if State.DONE in following] == [State.RUNNING]
    assert [state for state, following in TABLE.items() if State.RUNNING in following] == [State.READY]


def test_a_wrong_change_tells_the_history() -> None:
    with pytest.raises(TransitionError) as caught:
        at(State.DONE).change(State.RUNNING, 9.0)
    text = str(caught.value)
    assert "request 7" in text and "from done to running" in text
    assert "waiting, ready +0.500s, running +1.500s, done +2.500s" in text


def test_advance_passes_over_what_has_ended_and_refuses_the_rest() -> None:
    assert not at(State.CANCELLED).advance(State.READY, 3.0)
    assert at(State.READY).advance(State.RUNNING, 3.0)
    with pytest.raises(TransitionError):
        at(State.WAITING).advance(State.RUNNING, 3.0)


def test_of_many_that_end_a_request_one_wins() -> None:
    for _ in range(200):
        request, start = Request(1, 0.0, 0, ()), threading.Barrier(4)
        found: list[State | None] = []

        def end(to: State, request: Request = request, start: threading.Barrier = start, found=found) -> None:
            start.wait(5)
            found.append(request.end(to, 1.0))

        threads = [threading.Thread(target=end, args=(to,)) for to in (State.CANCELLED, State.ERROR) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert sorted(found, key=str) == [None, None, None, State.WAITING]
        assert [state for state, _ in request.history[1:]] == [request.state]


def test_an_end_lets_go_of_the_inputs() -> None:
    request = Request(1, 0.0, 0, (object(),))  # type: ignore[arg-type]
    request.end(State.CANCELLED, 1.0)
    assert request.inputs == ()


def test_a_wait_ends_with_the_request_or_with_its_limit() -> None:
    request = Request(1, 0.0, 0, ())
    assert not request.wait(0.001)
    waiter = threading.Thread(target=request.wait, args=(None,))
    waiter.start()
    request.end(State.ERROR, 1.0)
    waiter.join(5)
    assert not waiter.is_alive() and request.wait(0)


def test_errors_carry_the_request_through_every_copy() -> None:
    for kind in (RequestFailedError, DeadlineError):
        error = kind("it broke", request_id=12, model="net", instance=1, hint="mend it")
        again = pickle.loads(pickle.dumps(error))
        assert (again.request_id, again.trans_id, str(again)) == (12, 12, str(error))
        assert str(again) == "request 12, model 'net'#1: it broke\n  hint: mend it"
