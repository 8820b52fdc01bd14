"""Results wait by output; no graph is needed to see how."""

from __future__ import annotations

import threading
from collections import deque

import pytest

from dataflow.results import Results
from dflow_core.errors import DflowError, NodeError, WaitTimeoutError
from dflow_core.message import FlowMsg


class Source:
    """Gives what it was loaded with, then times out."""

    def __init__(self, *rows: tuple[FlowMsg | None, ...] | DflowError) -> None:
        self.rows = deque(rows)

    def __call__(self, timeout: float | None) -> tuple[tuple[FlowMsg | None, ...], DflowError | None, tuple[int, ...]]:
        if not self.rows:
            raise WaitTimeoutError("nothing")
        row = self.rows.popleft()
        if isinstance(row, DflowError):
            return (), row, ()
        return ((), *row) if isinstance(row[0], DflowError) else (row, None, ())


def msgs(count: int) -> list[FlowMsg]:
    return [FlowMsg() for _ in range(count)]


def test_whole_results_pass_through() -> None:
    a, b = msgs(2)
    assert Results(2).take([0, 1], Source((a, b)), 1) == [a, b]


def test_each_output_has_its_own_line() -> None:
    a, b, c, d = msgs(4)
    results, source = Results(2), Source((a, b), (c, d))
    assert results.take([0], source, 1) == [a]
    assert results.take([0], source, 1) == [c]
    assert results.take([1], source, 1) == [b]
    assert results.take([1], source, 1) == [d]


def test_outputs_come_in_the_order_they_are_asked_for() -> None:
    a, b = msgs(2)
    assert Results(2).take([1, 0], Source((a, b)), 1) == [b, a]


def test_an_output_that_was_skipped_is_waited_for() -> None:
    a, b, c = msgs(3)
    assert Results(2).take([0, 1], Source((a, None), (b, c)), 1) == [a, c]


def test_nothing_is_taken_when_time_is_over() -> None:
    (a,) = msgs(1)
    results = Results(2)
    with pytest.raises(WaitTimeoutError):
        results.take([0, 1], Source((a, None)), 0.01)
    assert results.take([0], Source(), 0) == [a]


def test_an_error_reaches_every_output_once() -> None:
    error = NodeError("no")
    a, b = msgs(2)
    results, source = Results(2), Source(error, (a, b))
    assert results.take([1], source, 1) == [error]
    assert results.take([0], source, 1) == [error]
    assert results.take([0, 1], source, 1) == [a, b]


def test_an_error_takes_the_place_of_what_did_not_come() -> None:
    error = NodeError("no")
    a, b, c = msgs(3)
    results, source = Results(2), Source((a, None), (error, (1,)), (b, c))
    assert results.take([0, 1], source, 1) == [a, error]
    assert results.take([0, 1], source, 1) == [b, c]


def test_a_thread_gets_what_another_one_fetched() -> None:
    a, b = msgs(2)
    results, is_waiting, go = Results(2), threading.Event(), threading.Event()
    got: list[object] = []

    def slow(timeout: float | None) -> tuple[tuple[FlowMsg, ...], None, tuple[()]]:
        is_waiting.set()
        assert go.wait(5)
        return (a, b), None, ()

    def never(timeout: float | None) -> tuple[tuple[FlowMsg, ...], None, tuple[()]]:
        raise AssertionError("two threads fetch at once")

    first = threading.Thread(target=lambda: got.extend(results.take([0], slow, 5)))
    first.start()
    assert is_waiting.wait(5)
    second = threading.Thread(target=lambda: got.extend(results.take([1], never, 5)))
    second.start()
    go.set()
    for thread in (first, second):
        thread.join(5)
    assert {id(item) for item in got} == {id(a), id(b)}


def test_what_was_left_can_be_let_go() -> None:
    a, b = msgs(2)
    results = Results(2)
    results.take([0], Source((a, b)), 1)
    results.clear()
    with pytest.raises(WaitTimeoutError):
        results.take([1], Source(), 0)
