"""The life of a request: one table, and one function that changes state. No I/O, no clock.

Rules:

- What may follow what is in `TABLE` and nowhere else.
- A request ends exactly once. Several may try at the same time (a completion, a cancel, a deadline, a close): `end`
  tells each of them what it found, so that exactly one sees a state that was not an end.
- Only `_move` writes the state, under the lock of the request.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping
from types import MappingProxyType

from dflow_offline_inference.requests.errors import TransitionError


class State(enum.Enum):
    """Where a request is.

    Attributes:
        bit: One bit for each state.
        following: Bits of the states that may follow; see `TABLE`.
    """

    bit: int
    following: int

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"


_ENDED_EARLY = frozenset({State.ERROR, State.CANCELLED})

TABLE: Mapping[State, frozenset[State]] = MappingProxyType({
    State.WAITING: frozenset({State.READY}) | _ENDED_EARLY,
    State.READY: frozenset({State.RUNNING}) | _ENDED_EARLY,
    State.RUNNING: frozenset({State.DONE}) | _ENDED_EARLY,
    State.DONE: frozenset(),
    State.ERROR: frozenset(),
    State.CANCELLED: frozenset(),
})
"""What may follow each state."""

ENDS = frozenset(state for state, following in TABLE.items() if not following)
"""States in which a request stays."""

WAITING, READY, RUNNING, DONE, ERROR, CANCELLED = State
"""The states by names of their own, for where every request passes: looking one up in its class costs as much as four
calls."""

for _number, _state in enumerate(State):  # the table as bits: a set of enum members hashes their names at every look
    _state.bit = 1 << _number
for _state, _following in TABLE.items():
    _state.following = sum(following.bit for following in _following)


class Lifecycle:
    """The state of one request, with its history. Thread-safe.

    Args:
        request_id: Of the request.
        at: When it was made, seconds.
    """

    __slots__ = ("_lock", "history", "id", "state")

    def __init__(self, request_id: int, at: float) -> None:
        self.id = request_id
        self.state = State.WAITING
        self.history: list[tuple[State, float]] = [(State.WAITING, at)]
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        """Whether it is in one of the states that nothing follows. It may become true at any time."""
        return not self.state.following

    def change(self, to: State, at: float) -> None:
        """Go on to a state.

        Raises:
            TransitionError: if the table does not allow it; the text is the request's history.
        """
        with self._lock:
            self._move(to, at)

    def advance(self, to: State, at: float) -> bool:
        """`change`, unless the request has ended meanwhile; whether it went on.

        Raises:
            TransitionError: if it has not ended, and the table does not allow it.
        """
        with self._lock:
            if not self.state.following:
                return False
            self._move(to, at)
            return True

    def story(self) -> str:
        """The states so far: `waiting, ready +0.001s, running +0.003s`."""
        began = self.history[0][1]
        first, *rest = self.history
        return ", ".join([first[0].value, *(f"{state.value} +{at - began:.3f}s" for state, at in rest)])

    def _move(self, to: State, at: float) -> None:
        if not to.bit & self.state.following:
            raise TransitionError(self.id, self.state.value, to.value, self.story())
        self.history.append((to, at))
        self.state = to
