"""How long one native wait may last.

Native waits are cut into slices so that signals (Ctrl-C) are seen in between. Python handles signals in the main thread
only, so that the slices of other threads are long: a process that has nothing to do sleeps. A wake-up that is lost with
a killed process comes when what it held is taken back (`reclaim`); where nobody does that, it costs a slice.
"""

from __future__ import annotations

import threading
import time

SLICE = 100_000_000
LONG_SLICE = 10_000_000_000


def longest_slice() -> int:
    """Nanoseconds that a native wait of this thread may last."""
    return SLICE if threading.get_ident() == threading.main_thread().ident else LONG_SLICE


def first_slice(timeout: float | None) -> int:
    """Nanoseconds of the first native wait for a limit in seconds (None: no limit)."""
    if timeout is None:
        return longest_slice()
    return min(int(timeout * 1e9), longest_slice()) if timeout > 0 else 0


class Deadline:
    """When a wait ends whose first slice has passed already."""

    def __init__(self, timeout: float | None) -> None:
        spent = first_slice(timeout) / 1e9
        self._end = None if timeout is None else time.monotonic() + timeout - spent

    def next_slice(self) -> int:
        """Nanoseconds of the next native wait; 0 when the time is up."""
        if self._end is None:
            return longest_slice()
        return first_slice(max(0.0, self._end - time.monotonic()))
