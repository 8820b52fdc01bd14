"""Which ready requests are run together, and when."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from dflow_offline_inference.engine import Grouping
from dflow_offline_inference.requests import Request, State


def ready(number: int, group: object = "g", rows: int = 1) -> Request:
    one = Request(number, 0.0, 0, (), rows=rows, group=None if group is None else (group,))
    one.change(State.READY, 0.0)
    return one


def ids(taken) -> list[int]:
    return [one.id for one in taken]


def test_a_batch_goes_when_it_is_full_or_has_waited() -> None:
    made = Grouping(3, patience=1.0)
    assert made.add(ready(1), 0.0), "somebody has to look when the first one's time is up"
    assert not made.add(ready(2), 0.5)
    assert ids(made.take(0.9)) == [] and made.due() == 1.0
    assert ids(made.take(1.0)) == [1, 2] and made.due() == math.inf
    for number in range(3, 6):
        told = made.add(ready(number), 1.0)
    assert told and ids(made.take(1.0)) == [3, 4, 5]


def test_groups_do_not_mix_and_the_oldest_goes_first() -> None:
    made = Grouping(2, patience=1.0)
    for number, group in ((1, "a"), (2, "b"), (3, "b"), (4, "a")):
        made.add(ready(number, group), 0.0)
    assert ids(made.take(0.0)) == [1, 4] and ids(made.take(0.0)) == [2, 3] and not made


def test_rows_count_and_a_batch_is_never_too_large() -> None:
    made = Grouping(4, patience=1.0)
    for number, rows in ((1, 3), (2, 2), (3, 1)):
        made.add(ready(number, rows=rows), 0.0)
    assert ids(made.take(0.0)) == [1]
    assert ids(made.take(0.0)) == [] and ids(made.take(0.0, drain=True)) == [2, 3]


def test_what_shares_with_nobody_goes_alone_and_at_once() -> None:
    made = Grouping(4, patience=9.0)
    made.add(ready(1, None), 0.0)
    made.add(ready(2, None), 0.0)
    assert ids(made.take(0.0)) == [1] and ids(made.take(0.0)) == [2]


def test_what_ended_meanwhile_is_left_out() -> None:
    made = Grouping(2, patience=9.0)
    gone, kept, late = ready(1), ready(2), ready(3)
    for one in (gone, kept):
        made.add(one, 0.0)
    gone.end(State.CANCELLED, 0.0)
    made.remove(gone)
    assert ids(made.take(0.0)) == [], "the place of the one that is gone is free again"
    made.add(late, 0.0)
    assert ids(made.take(0.0)) == [2, 3] and not made


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(1, 5), st.booleans()), max_size=40),
       st.integers(1, 6))
def test_everybody_goes_once_in_order_within_a_group(asked, batch: int) -> None:
    made, went = Grouping(batch, patience=5.0), []
    for number, (group, rows, look) in enumerate(asked):
        made.add(ready(number, group, rows), float(number))
        if look:
            went.append(made.take(float(number)))
    while made:
        went.append(made.take(1e9))
    taken = [one for batch_ in went for one in batch_]
    assert sorted(one.id for one in taken) == list(range(len(asked)))
    for group in ("a", "b"):
        numbers = [one.id for one in taken if one.group == (group,)]
        assert numbers == sorted(numbers)
    assert all(len({one.group for one in b}) <= 1 and (len(b) == 1 or sum(r.rows for r in b) <= batch) for b in went)
