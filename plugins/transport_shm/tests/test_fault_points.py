"""Processes that are stopped or killed at every place of the C code where it matters; see `native/faults.c`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dflow_transport_shm.bindings import StopAt

MODES = ["kill", "stop", "go-on", "random"]
ROUNDS = {"kill": 300, "stop": 300, "go-on": 120, "random": 300}
MEMORY = "address,undefined"


def places(text: str) -> tuple[int, int]:
    """How many places there are, and how many of them no round came to."""
    words = text.splitlines()[-1].split()
    return int(words[2]), int(words[4])


pytestmark = pytest.mark.timeout(180)  # of a busy machine; some seconds of a quiet one


@pytest.mark.parametrize("mode", MODES)
def test_others_go_on_and_nothing_is_lost_unreported(native: Callable[..., str], mode: str) -> None:
    there, missed = places(native("faults", mode, ROUNDS[mode], limit=150))
    assert there == sum(1 for where in StopAt if where)
    assert missed == 0


@pytest.mark.parametrize("mode", ["kill", "go-on"])
def test_no_memory_error_where_a_process_was_stopped(native: Callable[..., str], mode: str) -> None:
    native("faults", mode, 60, sanitizer=MEMORY, limit=150)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
def test_thousands_of_kills(native: Callable[..., str], mode: str) -> None:
    for seed in range(10):
        assert places(native("faults", mode, 1000, seed, limit=180))[1] == 0
