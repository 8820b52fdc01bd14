"""What travels over the stream of a link: words, each a gRPC message.

Little-endian. A word begins with its kind (1 byte) and the number of the last piece that its sender has taken (8):

- pieces, one after the other: number (8), lane (4), bytes of the head (4), bytes of the whole payload (8), bytes of the
  payload before this piece (8), bytes of it in this piece (8), the head, the data. Only the first piece of a frame, the
  one with nothing before it, has a head. A word without pieces acknowledges, and says that somebody is there.
- bye: nothing more; the sender has nothing more to send.

A link begins with greetings (`handshake`), which are JSON behind the kind.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from dflow_core.errors import PeerGoneError

MOST_HEAD = 64 << 10
_START = struct.Struct("<BQ")
_PIECE = struct.Struct("<QIIQQQ")


class Kind(enum.IntEnum):
    """What a word is."""

    GREETING = 1
    PIECES = 2
    BYE = 3


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a frame.

    Args:
        number: Counts the pieces of one direction, from 1.
        lane: The lane of the frame.
        head: Head of the frame; b"" behind the first piece.
        size: Bytes of the whole payload.
        begin: Bytes of the payload before this piece.
        data: Bytes of the payload in it.
    """

    number: int
    lane: int
    head: bytes
    size: int
    begin: int
    data: memoryview

    @property
    def is_first(self) -> bool:
        """Whether a frame begins with it."""
        return self.begin == 0

    @property
    def is_last(self) -> bool:
        """Whether the frame is complete with it."""
        return self.begin + len(self.data) == self.size


@dataclass(frozen=True, slots=True)
class Word:
    """A word other than a greeting.

    Args:
        kind: What it is.
        heard: Number of the last piece that its sender has taken.
        pieces: The pieces, for that kind.
    """

    kind: Kind
    heard: int
    pieces: tuple[Piece, ...] = ()


def pack(word: Word) -> bytes:
    """A word as it travels."""
    parts: list[bytes | memoryview] = [_START.pack(word.kind, word.heard)]
    for piece in word.pieces:
        fields = (piece.number, piece.lane, len(piece.head), piece.size, piece.begin, len(piece.data))
        parts += (_PIECE.pack(*fields), piece.head, piece.data)
    return b"".join(parts)


def unpack(data: bytes) -> Word:
    """The word that bytes are.

    Raises:
        PeerGoneError: they are none.
    """
    try:
        kind, heard = _START.unpack_from(data)
        return Word(Kind(kind), heard, tuple(_pieces(data)) if kind == Kind.PIECES else ())
    except (struct.error, ValueError) as cause:
        raise PeerGoneError(f"the other end of the link says what cannot be read: {cause}") from cause


def _pieces(data: bytes) -> Iterator[Piece]:
    view, at = memoryview(data), _START.size
    while at < len(data):
        number, lane, head, size, begin, count = _PIECE.unpack_from(data, at)
        at += _PIECE.size
        end = at + head + count
        if end > len(data) or begin + count > size or (head and begin):
            raise ValueError(f"piece {number} does not fit into its frame")
        yield Piece(number, lane, data[at : at + head], size, begin, view[at + head : end])
        at = end
