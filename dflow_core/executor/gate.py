"""What stops the thread of an instance between two calls: for a while, or for good.

The thread of the instance says that it is busy before it looks at `raised`, and whoever asks raises it before looking
whether the thread is busy, so that one of the two always sees the other: once the gate says that it is quiet, no call
begins until it is opened. `raised` is a plain attribute, so that looking costs next to nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

_SLICE = 60.0


class Gate:
    """The gate of one instance.

    Args:
        in_call: Whether the thread is in a call, where it does not say `busy`.
    """

    def __init__(self, in_call: Callable[[], bool] = lambda: False) -> None:
        self.raised = self.stopping = False
        self.busy = self.blocked = False
        self._in_call = in_call
        self._suspended = self._parked = False
        self._generation = self._parked_in = 0
        self._changed = threading.Condition()
        self._hold: Callable[[bool], None] = lambda _held: None
        self._go_on: Callable[[], None] | None = None

    # Of the instance's own thread.

    def enter(self) -> bool:
        """About to work on something: wait while suspended; whether to go on with it, as it may have been discarded."""
        self.busy = True
        return not self.raised or self.park()

    def park(self) -> bool:
        """Wait while suspended; whether what the thread has in hand is still wanted."""
        with self._changed:
            self._parked, self._parked_in = True, self._generation
            while self._suspended and not self.stopping:
                self._changed.wait(_SLICE)
            self._parked, self.busy = False, True
            return not self.stopping and self._parked_in == self._generation

    def is_stopping(self) -> bool:
        """Whether to leave."""
        return self.stopping

    # Of any other thread.

    @property
    def is_quiet(self) -> bool:
        """Whether no call is under way: the thread waits for input, here, or for room behind it."""
        return self._parked or self.blocked or not (self.busy or self._in_call())

    @property
    def is_suspended(self) -> bool:
        """Whether it is closed for a while."""
        return self._suspended

    def stop(self) -> None:
        """Have the thread leave."""
        with self._changed:
            self.stopping = self.raised = True
            self._changed.notify_all()

    def suspend(self) -> None:
        """Let no further call begin."""
        with self._changed:
            self._suspended = self.raised = True
            self._hold(True)

    def lead(self, hold: Callable[[bool], None]) -> None:
        """Have calls that begin elsewhere held up as well, from now on.

        Args:
            hold: Takes whether none may begin.
        """
        with self._changed:
            self._hold = hold
            hold(self._suspended)

    def resume(self) -> None:
        """Let the thread go on."""
        with self._changed:
            told, self._go_on = self._go_on, None
            if told is not None:
                told()
            self._suspended, self.raised = False, self.stopping
            self._hold(False)
            self._changed.notify_all()

    def discard(self, clear: Callable[[], bool], go_on: Callable[[], None] | None = None) -> bool:
        """While suspended, throw away what the thread has in hand and everything else.

        Args:
            clear: Throws away what waits; whether there was anything.
            go_on: Called once before the thread goes on, however often something was discarded.

        Returns:
            Whether there was nothing; False too where the thread waits for room, and so has to be asked again.
        """
        with self._changed:
            self._go_on = go_on
            if self.blocked and not self._parked:
                return False
            held = self._parked and self._parked_in == self._generation
            self._generation += 1
            return not (clear() or held)
