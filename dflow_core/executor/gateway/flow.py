"""The two ends of one crossing, without I/O: how much may be on the way, and when it is over.

The reading end grants credits, at first as many as its window. Each message that is sent spends one; it comes back when
the message lies in the queue at the other end. So what was sent and is in neither queue is never more than the window,
and where all credits are back nothing is on the way.
"""

from __future__ import annotations

from collections import deque

from dflow_core.message import Block

_MOST = 8


def window_of(depth: int) -> int:
    """Messages that may be on the way to a queue of that depth."""
    return max(1, min(depth, _MOST))


class Outgoing:
    """The end where messages leave.

    Attributes:
        credit: Messages that may be sent.
        has_ended: Whether the last one was sent.
    """

    __slots__ = ("_window", "credit", "has_ended")

    def __init__(self) -> None:
        self._window = self.credit = 0
        self.has_ended = False

    @property
    def may_send(self) -> bool:
        """Whether to look for a message, or for the end."""
        return self.credit > 0 and not self.has_ended

    @property
    def is_quiet(self) -> bool:
        """Whether everything sent is known to have been taken."""
        return self.credit == self._window

    def grant(self, count: int) -> None:
        """Take credits; the first ones say how large the window is."""
        self._window = self._window or count
        self.credit += count


class Incoming:
    """The end where messages arrive.

    Args:
        window: Messages that may be on the way.

    Attributes:
        waiting: What has arrived and is not in the queue, oldest first.
    """

    __slots__ = ("_is_told", "_last_came", "_owed", "_window", "waiting")

    def __init__(self, window: int) -> None:
        self.waiting: deque[Block] = deque()
        self._window = self._owed = window
        self._last_came = self._is_told = False

    def take(self) -> Block:
        """Take the oldest message off, for good: its credit goes back."""
        self._owed += 1
        return self.waiting.popleft()

    def owed(self, *, all_of_it: bool = False) -> int:
        """Credits to grant now; they count as granted. Few are kept back until they are half a window."""
        count = self._owed
        if 2 * count < self._window and not all_of_it:
            return 0
        self._owed = 0
        return count

    def end(self) -> None:
        """Nothing comes after what has arrived."""
        self._last_came = True

    def is_over(self) -> bool:
        """Whether everything is in the queue and nothing comes any more; said once."""
        if not self._last_came or self.waiting or self._is_told:
            return False
        self._is_told = True
        return True
