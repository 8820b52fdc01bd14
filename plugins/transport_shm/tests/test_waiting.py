"""How waits are cut into slices."""

from __future__ import annotations

import pytest

from dflow_core.testing.transport_contract.kit import thread
from dflow_transport_shm.waiting import Deadline, first_slice

MS = 1_000_000


@pytest.mark.parametrize(
    ("timeout", "in_main", "elsewhere"),
    [
        (None, 100 * MS, 10_000 * MS),
        (60.0, 100 * MS, 10_000 * MS),
        (2.0, 100 * MS, 2_000 * MS),
        (0.05, 50 * MS, 50 * MS),
        (0.0, 0, 0),
        (-1.0, 0, 0),
    ],
)
def test_only_the_thread_that_python_tells_of_signals_wakes_often(
    timeout: float | None, in_main: int, elsewhere: int
) -> None:
    found: list[int] = []
    with thread(lambda: found.append(first_slice(timeout))):
        pass
    assert (first_slice(timeout), *found) == (in_main, elsewhere)


def test_a_wait_without_limit_has_slices_for_ever() -> None:
    deadline = Deadline(None)
    assert {deadline.next_slice() for _ in range(3)} == {100 * MS}


def test_a_wait_ends_with_its_limit() -> None:
    assert Deadline(0.0).next_slice() == 0
    assert 0 < Deadline(5.0).next_slice() <= 100 * MS
