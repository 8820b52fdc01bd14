"""Which transactions were cancelled, on a board that every process of a graph reads.

The caller writes, nodes read. The first word counts the entries, so that a node that has nothing to look for spends one
load on a message. The second changes with every change: a reader copies the ids when it does. A transaction stays on
the board until nothing of it is under way any more; where more are cancelled than there is room for, the oldest is
taken off: what is left of it is worked on for nothing.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

_LIVE, _EPOCH, _HIGH, _SLOTS = 0, 1, 2, 8
SLOTS = 504
WORDS = _SLOTS + SLOTS
BOARD = "cancelled transactions"
"""Name of the board in the memory group."""

Words = np.ndarray[tuple[int], np.dtype[np.uint64]]


def no_words() -> Words:
    """A board that nobody else sees."""
    return np.zeros(WORDS, np.uint64)


class CancelBoard:
    """The board, for the only one who writes it.

    Args:
        words: `WORDS` words, zero at first.
    """

    def __init__(self, words: Words) -> None:
        self._words = memoryview(words).cast("B").cast("Q")
        self._slots: dict[int, int] = {}
        self._free = list(range(SLOTS - 1, -1, -1))

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, trans_id: int) -> int:
        """Note a transaction; gives the one that had to give way to it, or 0."""
        if trans_id in self._slots:
            return 0
        evicted = 0
        if not self._free:
            evicted = next(iter(self._slots))
            self.remove(evicted)
        slot = self._free.pop()
        self._slots[trans_id] = slot
        words = self._words
        words[_SLOTS + slot] = trans_id
        words[_HIGH] = max(words[_HIGH], slot + 1)
        words[_LIVE] = len(self._slots)
        words[_EPOCH] += 1
        return evicted

    def remove(self, trans_id: int) -> None:
        """Nothing of it is under way any more."""
        slot = self._slots.pop(trans_id, None)
        if slot is None:
            return
        words = self._words
        words[_SLOTS + slot] = 0
        self._free.append(slot)
        words[_LIVE] = len(self._slots)
        if not self._slots:
            words[_HIGH] = 0
            self._free.sort(reverse=True)
        words[_EPOCH] += 1


class CancelReader(Container[int]):
    """The board, for those who ask whether a transaction is on it.

    Look at `words[0]` first: it is 0 as long as nothing is cancelled, and then there is nothing to ask for.

    Args:
        words: As for CancelBoard.
    """

    __slots__ = ("_epoch", "_ids", "_swept", "words")

    def __init__(self, words: Words | None = None) -> None:
        self.words = memoryview(no_words() if words is None else words).cast("B").cast("Q")
        self._epoch = self._swept = 0
        self._ids: frozenset[int] = frozenset()

    def __contains__(self, trans_id: object) -> bool:
        if not self.words[_LIVE]:
            return False
        self._refresh()
        return trans_id in self._ids

    def has_news(self) -> bool:
        """Whether something was cancelled since the last call of this."""
        epoch = self.words[_EPOCH]
        news = epoch != self._swept and self.words[_LIVE] > 0
        self._swept = epoch
        return news

    def _refresh(self) -> None:
        epoch = self.words[_EPOCH]
        if epoch != self._epoch:
            # The writer changes the epoch last: what it does meanwhile is seen the next time.
            self._ids = frozenset(self.words[_SLOTS : _SLOTS + self.words[_HIGH]])
            self._epoch = epoch


class BoardCopy:
    """The board of a machine that another one's is copied to, or the board that is copied.

    Args:
        words: As for CancelBoard.
    """

    def __init__(self, words: Words) -> None:
        self._words = memoryview(words).cast("B").cast("Q")

    @property
    def epoch(self) -> int:
        """Changes with every change."""
        return self._words[_EPOCH]

    def pack(self) -> bytes:
        """What it says, as bytes; read `epoch` before, and again to know whether it has changed meanwhile."""
        return self._words[: _SLOTS + self._words[_HIGH]].tobytes()

    def write(self, data: bytes) -> None:
        """Have it say what `pack` of another one gave."""
        words, theirs = self._words, memoryview(data).cast("Q")
        for at in range(_SLOTS, _SLOTS + max(theirs[_HIGH], words[_HIGH])):
            words[at] = theirs[at] if at < len(theirs) else 0
        words[_HIGH], words[_LIVE] = theirs[_HIGH], theirs[_LIVE]
        words[_EPOCH] += 1
