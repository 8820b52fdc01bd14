"""How long one native wait may last.

Native waits are cut into slices so that signals (Ctrl-C) are seen in between, and so that a wake-up lost with a
killed process costs a slice and not the whole limit.
"""

from __future__ import annotations

import time

SLICE = 100_000_000
_SLICE_S = SLICE / 1e9


def first_slice(timeout: float | None) -> int:
    """Nanoseconds of the first native wait for a limit in seconds (None: no limit)."""
    if timeout is None or timeout >= _SLICE_S:
        return SLICE
    return int(timeout * 1e9) if timeout > 0 else 0


class Deadline:
    """When a wait ends whose first slice has passed already."""

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout - min(timeout, _SLICE_S)

    def next_slice(self) -> int:
        """Nanoseconds of the next native wait; 0 when the time is up."""
        if self._end is None:
            return SLICE
        return first_slice(max(0.0, self._end - time.monotonic()))
