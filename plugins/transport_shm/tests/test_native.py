"""The C code under sanitizers; see `native/`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MEMORY, RACES = "address,undefined", "thread"

pytestmark = pytest.mark.timeout(180)  # of a busy machine; some seconds of a quiet one


@pytest.mark.parametrize(
    ("sanitizer", "how", "rounds"),
    [
        (MEMORY, "threads", 6000),
        (MEMORY, "members", 6000),
        (MEMORY, "processes", 6000),
        (RACES, "threads", 6000),
        (RACES, "members", 6000),
    ],
)
def test_stress_is_clean_under_sanitizers(native: Callable[..., str], sanitizer: str, how: str, rounds: int) -> None:
    assert native("stress", how, rounds, sanitizer=sanitizer) == "fine\n"


def test_shortage_of_memory_is_an_error_and_nothing_is_lost(native: Callable[..., str]) -> None:
    """BC-009: no pages for a block; never SIGBUS."""
    assert native("shortage", sanitizer=MEMORY) == "fine\n"


def test_a_wait_looks_again_longer_now_and_then_so_that_both_ends_get_into_step(native: Callable[..., str]) -> None:
    """By a clock of its own: 5 us, each 32nd time in vain 30, and not at all where both ends share a CPU."""
    assert native("spin", sanitizer=MEMORY) == "fine\n"


@pytest.mark.parametrize("spin_us", [0, 5])
def test_no_wake_up_is_lost_between_cpus(native: Callable[..., str], spin_us: int) -> None:
    """Ping and pong through queues of one place; a lost wake-up would hang it."""
    assert native("hammer", 20_000, spin_us, limit=150) == "fine\n"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sanitizer", [MEMORY, RACES, ""])
def test_hammer_and_stress_for_longer(native: Callable[..., str], sanitizer: str) -> None:
    for how in ("threads", "members"):
        assert native("stress", how, 60_000, sanitizer=sanitizer, limit=400) == "fine\n"
    assert native("hammer", 300_000, 0, sanitizer=sanitizer, limit=400) == "fine\n"
