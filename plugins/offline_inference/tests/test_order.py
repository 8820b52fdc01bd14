"""In which order waiting requests go, and what that costs."""

from __future__ import annotations

import math
import tracemalloc
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_offline_inference.requests import Request, State
from dflow_offline_inference.scheduler import Admission, Limits, WaitingOrder, rank_of

AGEING = 10.0
ARRIVALS = st.lists(st.tuples(st.integers(-3, 3), st.floats(0, 5, allow_nan=False)), max_size=60)


def request(number: int, rank: float = 0.0) -> Request:
    return Request(number, 0.0, 0, (), rank=rank)


def drained(order: WaitingOrder) -> list[int]:
    found = []
    while (place := order.head()) is not None:
        order.pop()
        found.append(place[1])
    return found


@given(ARRIVALS)
def test_priority_goes_first_and_within_one_who_came_first(arrivals: list[tuple[int, float]]) -> None:
    order, now, came = WaitingOrder(), 0.0, {}
    for number, (priority, gap) in enumerate(arrivals):
        now += gap / 100
        came[number] = priority
        order.push(request(number, rank_of(priority, now, AGEING)))
    assert drained(order) == sorted(came, key=lambda number: (-came[number], number))


@given(ARRIVALS)
def test_nobody_is_overtaken_for_longer_than_the_difference_in_priority_is_worth(
    arrivals: list[tuple[int, float]]
) -> None:
    order, now, came = WaitingOrder(), 0.0, {}
    for number, (priority, gap) in enumerate(arrivals):
        now += gap * 5
        came[number] = (priority, now)
        order.push(request(number, rank_of(priority, now, AGEING)))
    went = drained(order)
    place = {number: index for index, number in enumerate(went)}
    for early, (low, then) in came.items():
        for late, (high, after) in came.items():
            if after > then + (high - low) * AGEING and late > early:
                assert place[early] < place[late]


def test_a_low_priority_is_reached_under_an_endless_stream_of_high_ones() -> None:
    order = WaitingOrder()
    order.push(request(0, rank_of(0, 0.0, AGEING)))
    for number in range(1, 1000):
        order.push(request(number, rank_of(5, number * 0.1, AGEING)))
        place = order.head()
        assert place is not None
        order.pop()
        if place[1] == 0:
            assert number == pytest.approx(5 * AGEING / 0.1, abs=2)
            return
    raise AssertionError("it starved")


def test_what_ended_is_skipped_and_does_not_pile_up() -> None:
    order = WaitingOrder()
    kept = request(0, rank=1e9)
    order.push(kept)
    for number in range(1, 20_000):
        gone = request(number)
        order.push(gone)
        gone.end(State.CANCELLED, 0.0)
        order.note_end()
    assert len(order._heap) < 500
    assert drained(order) == [0]


class CountedRank(float):
    """A rank that counts how often it is compared."""

    compared: ClassVar[int] = 0

    def __lt__(self, other: float) -> bool:
        CountedRank.compared += 1
        return float.__lt__(self, other)

    def __eq__(self, other: object) -> bool:
        CountedRank.compared += 1
        return float.__eq__(self, other)

    __hash__ = float.__hash__


def comparisons(count: int) -> float:
    """Comparisons for each of `count` requests of mixed priorities, from the first to wait to the last to go."""
    admission = Admission([Limits("m", "cpu:0", 4)], {})
    CountedRank.compared = 0
    for number in range(1, count + 1):
        admission.add(request(number, CountedRank((number * 7919) % 1000)))
    went = 0
    while went < count:
        admission.choose()
        while admission.leaving:
            one = admission.leaving.popleft()
            one.change(State.READY, 0.0)
            admission.release([one])
            went += 1
    return CountedRank.compared / count


def test_what_scheduling_costs_grows_with_the_logarithm_at_most() -> None:
    small, large = comparisons(1_000), comparisons(32_000)
    assert large / small <= 1.15 * math.log2(32_000) / math.log2(1_000)


def test_looking_while_all_slots_are_taken_costs_nothing() -> None:
    admission = Admission([Limits("m", "cpu:0", 1)], {})
    for number in range(1, 2_000):
        admission.add(request(number, CountedRank(number)))
    admission.choose()
    CountedRank.compared = 0
    for _ in range(100):
        admission.choose()
    assert CountedRank.compared == 0


def test_a_waiting_request_takes_less_than_two_kilobytes() -> None:
    admission = Admission([Limits("m", "cpu:0", 1)], {})
    inputs = ()
    tracemalloc.start()
    try:
        for number in range(1, 20_001):
            admission.add(Request(number, number * 1.0, 0, inputs, rank=number * 0.5))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / 20_000 <= 2048
