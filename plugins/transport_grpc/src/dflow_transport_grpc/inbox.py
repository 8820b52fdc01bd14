"""What arrives at one end: pieces put together where the receiver wants them, each taken once."""

from __future__ import annotations

from dflow_core.errors import PeerGoneError
from dflow_core.spi import LinkReceiver
from dflow_transport_grpc.words import Piece


class Inbox:
    """Puts frames together. Not thread-safe.

    Attributes:
        last: Number of the last piece that was taken.
    """

    def __init__(self) -> None:
        self.last = 0
        self._open: dict[int, tuple[bytes, memoryview]] = {}

    def take(self, piece: Piece, receiver: LinkReceiver) -> None:
        """Hand a piece to the receiver; one that came before is ignored.

        Raises:
            PeerGoneError: pieces before it are missing, or it belongs to no frame.
        """
        if piece.number <= self.last:
            return
        if piece.number != self.last + 1:
            raise PeerGoneError(f"piece {piece.number} of the link came behind piece {self.last}")
        if piece.is_first:
            head = bytes(piece.head)
            room = receiver.room_for(piece.lane, head, piece.size) if piece.size else memoryview(b"")
            self._open[piece.lane] = (head, room)
        if piece.lane not in self._open:
            raise PeerGoneError(f"piece {piece.number} of the link continues nothing")
        head, room = self._open[piece.lane]
        if len(room) != piece.size:
            raise PeerGoneError(f"piece {piece.number} of the link belongs to another frame")
        if piece.data:
            room[piece.begin : piece.begin + len(piece.data)] = piece.data
        self.last = piece.number
        if piece.is_last:
            del self._open[piece.lane]
            receiver.arrived(piece.lane, head)

    def drop(self) -> None:
        """Let go of what is incomplete."""
        self._open.clear()
