"""What a function with queues has taken lately: what a recording keeps of it when it fails. No I/O.

The messages that it owes an answer lie here as they are; their blocks are held anyway. Of those it took since its last
answer and owes nothing for (a window, what it has skipped) a few are copied: nobody waits for memory because of a
recording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dflow_core.message import FlowMsg
from dflow_core.recording import copied

_MOST = 16
_MOST_BYTES = 64 << 20


class TakenMsg(FlowMsg):
    """A message that was given to a function; whoever asks can tell when the function has let go of it."""

    __slots__ = ("__weakref__",)

    @classmethod
    def of(cls, msg: FlowMsg) -> TakenMsg:
        """The same message."""
        return cls(msg.info.copy(), msg.body, msg.aux, msg.block)


@dataclass(slots=True)
class _Entry:
    port: int
    msg: FlowMsg
    is_copy: bool = False

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return 0 if self.msg.body is None else len(self.msg.body)


class TakenLog:
    """The messages that the current call of a function has to do with, in the order they were taken.

    Args:
        owes: Whether the function owes a key (transaction, label) an answer.
        most: Messages that are kept besides those.
        most_bytes: Bytes of them.
    """

    def __init__(
        self, owes: Callable[[tuple[int, int]], bool], most: int = _MOST, most_bytes: int = _MOST_BYTES
    ) -> None:
        self._owes, self._most, self._most_bytes = owes, most, most_bytes
        self._entries: list[_Entry] = []
        self._answers = 0

    def take(self, port: int, msg: FlowMsg, answers: int) -> None:
        """The function has taken a message.

        Args:
            port: Input of the function, from 0.
            msg: The message.
            answers: How many it has sent so far; with the first message after an answer, something new begins.
        """
        self.settle(answers)
        self._entries.append(_Entry(port, msg))

    def settle(self, answers: int) -> None:
        """Let go of what is not needed any more: the function takes another message, or waits, perhaps for long.

        Args:
            answers: As for `take`.
        """
        if answers != self._answers:
            self._answers = answers
            self._entries = [entry for entry in self._entries if self._owes(entry.msg.info.key)]
        self._let_go()

    def clear(self) -> None:
        """A call of the function has ended."""
        self._entries.clear()

    @property
    def taken(self) -> list[tuple[int, FlowMsg]]:
        """Input and message, in the order they were taken."""
        return [(entry.port, entry.msg) for entry in self._entries]

    def _let_go(self) -> None:
        """Copy what is not owed any more, the newest first as far as there is room, and drop the rest."""
        kept: list[_Entry] = []
        count = size = 0
        for entry in reversed(self._entries):
            if not self._owes(entry.msg.info.key):
                count, size = count + 1, size + entry.size
                if count > self._most or size > self._most_bytes:
                    continue
                if not entry.is_copy:
                    entry = _Entry(entry.port, copied(entry.msg), is_copy=True)
            kept.append(entry)
        self._entries = kept[::-1]
