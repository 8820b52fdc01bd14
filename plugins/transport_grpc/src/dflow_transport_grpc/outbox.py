"""What one end has to send, without I/O: which piece is next, and which have to be sent again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from dflow_core.spi import FIRST_DATA_LANE
from dflow_transport_grpc.words import Piece

PIECE_BYTES = 1 << 20
_WINDOW = 16 << 20
_MOST_PIECES = 64


@dataclass(slots=True)
class _Frame:
    lane: int
    head: bytes
    payload: memoryview
    sent: int = 0


class Outbox:
    """Frames that wait, taken apart into numbered pieces. Not thread-safe.

    Pieces that were given out stay until the other end has them. Of frames in data lanes only so many are given out
    ahead; urgent lanes are not held up.

    Args:
        piece_bytes: Most bytes of payload in a piece.
        window: Bytes of data lanes ahead of what the other end has, after which nothing more is given out.
    """

    def __init__(self, piece_bytes: int = PIECE_BYTES, window: int = _WINDOW) -> None:
        self._piece_bytes, self._window = piece_bytes, window
        self._urgent: dict[int, deque[_Frame]] = {lane: deque() for lane in range(FIRST_DATA_LANE)}
        self._lanes: dict[int, deque[_Frame]] = {}
        self._turns: deque[int] = deque()
        self._last = 0
        self._kept: deque[Piece] = deque()
        self._kept_bytes = 0
        self._again: deque[Piece] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether the other end has everything."""
        return not self._kept and not self._turns and not any(self._urgent.values())

    def add(self, lane: int, head: bytes, payload: memoryview) -> None:
        """Take a frame."""
        frame = _Frame(lane, head, payload)
        if lane in self._urgent:
            self._urgent[lane].append(frame)
            return
        waiting = self._lanes.setdefault(lane, deque())
        if not waiting:
            self._turns.append(lane)
        waiting.append(frame)

    def next(self) -> tuple[Piece, ...]:
        """The pieces to send now, together: as many as are small enough for one word, or none."""
        found: list[Piece] = []
        room = self._piece_bytes
        while room > 0 and len(found) < _MOST_PIECES and (piece := self._next()) is not None:
            found.append(piece)
            room -= len(piece.data)
        return tuple(found)

    def _next(self) -> Piece | None:
        if self._again:
            return self._again.popleft()
        for waiting in self._urgent.values():
            if waiting:
                return self._cut(waiting)
        if not self._turns or self._kept_bytes >= self._window:
            return None
        lane = self._turns.popleft()
        waiting = self._lanes[lane]
        piece = self._cut(waiting)
        if waiting:
            self._turns.append(lane)
        return piece

    def heard(self, number: int) -> None:
        """The other end has all pieces up to a number."""
        while self._kept and self._kept[0].number <= number:
            self._kept_bytes -= _cost(self._kept.popleft())

    def resume(self, number: int) -> None:
        """On a new connection: the other end has all pieces up to a number, and those behind are to be sent again."""
        self.heard(number)
        self._again = deque(self._kept)

    def drop(self) -> None:
        """Let everything go; nobody will take it."""
        for waiting in (*self._urgent.values(), *self._lanes.values()):
            waiting.clear()
        for some in (self._turns, self._kept, self._again):
            some.clear()
        self._kept_bytes = 0

    def _cut(self, waiting: deque[_Frame]) -> Piece:
        frame = waiting[0]
        data = frame.payload[frame.sent : frame.sent + self._piece_bytes]
        self._last += 1
        head = b"" if frame.sent else frame.head
        piece = Piece(self._last, frame.lane, head, len(frame.payload), frame.sent, data)
        frame.sent += len(data)
        if piece.is_last:
            waiting.popleft()
        self._kept.append(piece)
        self._kept_bytes += _cost(piece)
        return piece


def _cost(piece: Piece) -> int:
    """What a piece counts in the window: its bytes, and something for the piece itself."""
    return len(piece.data) + 1024
