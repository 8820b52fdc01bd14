"""What of a recording is kept, without I/O: the newest good transactions, every failed one, within a size.

Everything is appended as it happens, so what is no longer kept still lies in the file. Once that is more than what is
kept, the file is written anew without it (`compaction`); so it is never much larger than twice what is kept, and each
byte is copied once on average.

A node that is exchanged while the graph runs leaves a record of its new version. Each transaction holds those in force
when it was fed, as it holds its own records; and the newest of each node is held in any case.

Where the limit is reached, the oldest good transactions go first. If there are none left, what is new is not recorded:
the first failures are nearer to their cause than the last ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

_SLACK = 1 << 20
_CALLS = 4
"""Failed calls kept of one transaction: each part of a spread-out one may fail."""


@dataclass(slots=True, eq=False)
class Piece:
    """One record in the file.

    Args:
        offset, size: Where it lies; both change places when the file is written anew.
        holders: How many transactions need it, and nodes whose newest version it is.
    """

    offset: int
    size: int
    holders: int = 0


@dataclass(slots=True)
class _Kept:
    pieces: list[Piece] = field(default_factory=list)
    calls: int = 0


class Keeper:
    """Decides what is kept.

    Args:
        good: Good transactions to keep.
        limit: Bytes of records to keep.
        slack: Bytes that may lie unused before the file is written anew.
    """

    def __init__(self, good: int, limit: int, slack: int = _SLACK) -> None:
        self._good_limit, self._limit, self._slack = good, limit, slack
        self._open: dict[int, _Kept] = {}
        self._good: deque[_Kept] = deque()
        self._failed: list[_Kept] = []
        self._versions: dict[str, Piece] = {}
        self.live = 0
        self.dead = 0
        self.left_out = 0

    def wants_fed(self, trans_id: int, size: int) -> bool:
        """Whether what is fed for a transaction is to be recorded; it is new, or known as open."""
        fits = self._make_room(size)
        if trans_id in self._open:
            if not fits:
                self._leave_out(trans_id)
            return fits
        if not fits:
            self.left_out += 1
            return False
        self._open[trans_id] = kept = _Kept(list(dict.fromkeys(self._versions.values())))
        for piece in kept.pieces:
            piece.holders += 1
        return True

    def exchanged(self, nodes: Iterable[str], offset: int, size: int) -> None:
        """A record of new versions of some nodes was written; transactions that are new from now on need it."""
        piece = Piece(offset, size)
        self.live += size
        for node in nodes:
            piece.holders += 1
            if node in self._versions:
                self._release(self._versions[node])
            self._versions[node] = piece

    def wants_call(self, trans_ids: tuple[int, ...], size: int) -> bool:
        """Whether a failed call of these transactions is to be recorded."""
        found = [kept for one in trans_ids if (kept := self._open.get(one)) is not None and kept.calls < _CALLS]
        if not found or not self._make_room(size):
            return False
        for kept in found:
            kept.calls += 1
        return True

    def is_open(self, trans_id: int) -> bool:
        """Whether a transaction is recorded and has not ended."""
        return trans_id in self._open

    def wrote(self, trans_ids: tuple[int, ...], offset: int, size: int) -> None:
        """A record of these transactions was written."""
        holders = [kept for one in trans_ids if (kept := self._open.get(one)) is not None]
        piece = Piece(offset, size, len(holders))
        for kept in holders:
            kept.pieces.append(piece)
        if holders:
            self.live += size
        else:
            self.dead += size

    def ended(self, trans_id: int, failed: bool) -> None:
        """A transaction has ended, and its last record was written."""
        kept = self._open.pop(trans_id, None)
        if kept is None:
            return
        if failed:
            self._failed.append(kept)
            return
        self._good.append(kept)
        if len(self._good) > self._good_limit:
            self._drop(self._good.popleft())

    def compaction(self) -> list[Piece] | None:
        """What to write anew, in the order of the file, if it is time for that; change their offsets then."""
        if self.dead <= max(self.live, self._slack):
            return None
        kept = [*self._open.values(), *self._good, *self._failed]
        pieces = {piece for one in kept for piece in one.pieces}.union(self._versions.values())
        return sorted(pieces, key=lambda piece: piece.offset)

    def compacted(self) -> None:
        """The file was written anew."""
        self.dead = 0

    def _make_room(self, size: int) -> bool:
        while self.live + size > self._limit and self._good:
            self._drop(self._good.popleft())
        return self.live + size <= self._limit

    def _leave_out(self, trans_id: int) -> None:
        self.left_out += 1
        self._drop(self._open.pop(trans_id))

    def _drop(self, kept: _Kept) -> None:
        for piece in kept.pieces:
            self._release(piece)

    def _release(self, piece: Piece) -> None:
        piece.holders -= 1
        if not piece.holders:
            self.live -= piece.size
            self.dead += piece.size
