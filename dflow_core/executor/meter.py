"""What a node instance did, in counters that everybody who shares the graph's memory can read while it runs.

The instance is the only one who writes. Eight words of 64 bits; four are whole numbers and the others seconds, as
doubles. They go on counting when the process of the instance is started again.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from dflow_core.spi import MemoryGroup

WORDS: Final = 8
PID, CALLS, FAILED, TRANS_ID = 0, 1, 2, 3
BUSY, BLOCKED, SINCE, BEGAN = 4, 5, 6, 7


class Meter:
    """The counters of one instance, for the one who writes them.

    Args:
        board: Eight words; zero at first.
    """

    __slots__ = ("floats", "ints")

    def __init__(self, board: np.ndarray[tuple[int], np.dtype[np.uint64]] | None = None) -> None:
        words = memoryview(np.zeros(WORDS, np.uint64) if board is None else board).cast("B")
        self.ints = words.cast("Q")
        self.floats = words.cast("d")

    def begin(self) -> tuple[int, float, float]:
        """From now on this process counts; gives calls, busy and blocked seconds of the one before it."""
        self.floats[SINCE] = 0.0
        self.floats[BEGAN] = time.monotonic() - self.floats[BUSY] - self.floats[BLOCKED]
        self.ints[PID] = os.getpid()
        return self.ints[CALLS], self.floats[BUSY], self.floats[BLOCKED]

    def start(self, trans_id: int, since: float) -> None:
        """A call has begun; `since` on the monotonic clock."""
        self.ints[TRANS_ID] = trans_id
        self.floats[SINCE] = since

    def end(self, calls: int, busy: float, blocked: float) -> None:
        """The totals after a call; no other is open."""
        self.ints[CALLS] = calls
        self.floats[BUSY] = busy
        self.floats[BLOCKED] = blocked
        self.floats[SINCE] = 0.0


@dataclass(frozen=True, slots=True)
class NodeStats:
    """What one instance of a node has done since the graph was started.

    Args:
        node, instance: Which.
        pid: Its process; 0 if it does not run.
        state: `starting`, `running`, `restarting`, `failed` or `stopped`.
        restarts: How often its process was started again.
        calls: Calls finished.
        failed: Calls that ended with an error.
        busy: Seconds spent in calls.
        blocked: Seconds spent waiting for room behind it.
        waiting: Seconds spent waiting for input.
        current: Transaction in work and for how many seconds; None between calls.
        given_up: How many seconds ago it was given up, and why; None while it is not.
        version: Which version of the node works; the first is 1, `FlowGraph.update` gives the next.
        machine: Machine it is on; "" for that of the application.
    """

    node: str
    instance: int
    pid: int = 0
    state: str = "running"
    restarts: int = 0
    calls: int = 0
    failed: int = 0
    busy: float = 0.0
    blocked: float = 0.0
    waiting: float = 0.0
    current: tuple[int, float] | None = None
    given_up: tuple[float, str] | None = None
    version: int = 1
    machine: str = ""


def board_name(node: str, instance: int) -> str:
    """Name of an instance's counters in the memory group; long names are cut, as those of queues."""
    text = f"{node}#{instance}"
    return text if len(text.encode("utf-8", "surrogatepass")) <= 255 else f"#{hash_of(text)}"


def hash_of(text: str) -> str:
    """A short name for a long one."""
    import hashlib

    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class MeterReader:
    """Reads the counters of one instance.

    Args:
        group: The memory group.
        node, instance: Which.
    """

    def __init__(self, group: MemoryGroup, node: str, instance: int) -> None:
        self._board = group.board(board_name(node, instance), WORDS)
        self._node, self._instance = node, instance

    def works_on(self, trans_id: int) -> bool:
        """Whether it says that it works on a transaction now."""
        words = self._board
        return int(words[TRANS_ID]) == trans_id and bool(words[SINCE])

    def read(self, pid: int, state: str, restarts: int) -> NodeStats | None:
        """The counters now; None if nobody has written any.

        Args:
            pid, state, restarts: What is known of its process otherwise.
        """
        words = self._board.copy()
        seconds = words.view(np.float64)
        if not words[PID]:
            return None
        now = time.monotonic()
        busy, blocked, since = float(seconds[BUSY]), float(seconds[BLOCKED]), float(seconds[SINCE])
        current = (int(words[TRANS_ID]), max(0.0, now - since)) if since and pid == int(words[PID]) else None
        waiting = now - float(seconds[BEGAN]) - busy - blocked - (current[1] if current else 0.0)
        return NodeStats(
            self._node, self._instance, pid, state, restarts, int(words[CALLS]), int(words[FAILED]), busy, blocked,
            max(0.0, waiting) if pid else 0.0, current,
        )
