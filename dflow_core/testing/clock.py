"""A clock that stands still until a test moves it."""

from __future__ import annotations


class FakeClock:
    """Seconds that pass when told to; give the object itself wherever a clock function is taken.

    Args:
        now: What it shows at first.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        """Let seconds pass; returns the new time."""
        if seconds < 0:
            raise ValueError("a monotonic clock does not go back")
        self.now = round(self.now + seconds, 9)  # else twice 0.05 would not reach a deadline after 0.1
        return self.now
