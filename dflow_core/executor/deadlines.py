"""Limits of waits as points in time, on the monotonic clock."""

from __future__ import annotations

import time


def deadline_in(timeout: float | None) -> float | None:
    """When a wait of so many seconds ends that begins now; None for one without a limit."""
    return None if timeout is None else time.monotonic() + max(0.0, timeout)


def remaining(deadline: float | None, without: float = -1) -> float:
    """Seconds until a deadline; `without` if there is none."""
    return without if deadline is None else max(0.0, deadline - time.monotonic())


def earlier(first: float | None, second: float | None) -> float | None:
    """The earlier of two deadlines that may be none."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def never() -> bool:
    """For those who give way to nothing."""
    return False
