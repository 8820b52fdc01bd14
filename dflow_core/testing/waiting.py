"""Waits of tests: for a condition, with a limit, instead of for a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

LIMIT = 20.0


def comes_true(condition: Callable[[], object], limit: float = LIMIT, pause: float = 0.005) -> bool:
    """Wait for a condition; whether it came true within the limit.

    Args:
        condition: What is looked at.
        limit: Seconds after which to give up.
        pause: Seconds between two looks.
    """
    end = time.monotonic() + limit
    ticks = threading.Event()  # not `sleep`, which tests replace to see who sleeps
    while not condition():
        if time.monotonic() > end:
            return False
        ticks.wait(pause)
    return True


def wait_until(condition: Callable[[], object], limit: float = LIMIT, pause: float = 0.005) -> None:
    """Wait for a condition, and fail where it does not come true; arguments as for `comes_true`.

    Raises:
        AssertionError: the limit is over.
    """
    assert comes_true(condition, limit, pause), f"the condition did not come true within {limit:g} s"


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
