"""The file: records one after the other, each with a checksum of its own.

    header 64 | frame | header 64 | frame | ...

A header is magic 8, version 4, kind 4, transaction 8, size of the frame 8, SHA-256 32 over the header before it and the
frame; numbers are little-endian. The first record holds the graph. Records are appended, so an application that is
killed leaves a file that is whole up to its last record. What follows the last whole record counts as cut off, unless
another whole record follows: then something in the middle was altered.
"""

from __future__ import annotations

import enum
import hashlib
import os
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dflow_core.errors import ModelFormatError
from dflow_core.model import Buffer, FileSource, Frame, FrameReader, open_source

MAGIC = b"\x89DFREC\r\n"
VERSION = 1
HEADER = ALIGN = 64

_HEADER = struct.Struct("<8sIIQQ32s")
_DIGEST_AT = HEADER - 32
_PIECE = 1 << 20


class Kind(enum.IntEnum):
    """What a record holds."""

    GRAPH = 1
    FED = 2
    CALL = 3
    END = 4
    CLOSED = 5
    UPDATE = 6


@dataclass(frozen=True, slots=True)
class Record:
    """Where a record lies.

    Args:
        kind: What it holds.
        trans_id: Its transaction; 0 for none.
        offset, size: Where its frame lies.
    """

    kind: Kind
    trans_id: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Scan:
    """What lies in a file.

    Args:
        records: The whole ones, in order.
        torn: Bytes behind the last whole one.
    """

    records: tuple[Record, ...]
    torn: int


def record_chunks(kind: Kind, trans_id: int, chunks: Sequence[Buffer]) -> list[Buffer]:
    """A record as buffers to be written one after the other.

    Args:
        kind: What it holds.
        trans_id: Its transaction, or 0.
        chunks: Its frame, as buffers.
    """
    head = _HEADER.pack(MAGIC, VERSION, kind, trans_id, sum(map(len, chunks)), bytes(32))[:_DIGEST_AT]
    digest = hashlib.sha256(head)
    for chunk in chunks:
        digest.update(chunk)
    return [head + digest.digest(), *chunks]


def scan(source: FileSource) -> Scan:
    """Every whole record, checked.

    Raises:
        ModelFormatError: no recording, one of another version, or one that was altered; says at which byte.
    """
    records: list[Record] = []
    at = 0
    while at < source.size:
        record = _record_at(source, at)
        if record is None:
            _refuse_later_ones(source, at)
            break
        records.append(record)
        at = record.offset + record.size
    if not records:
        raise _broken(source, "the recording is cut off before its graph is complete", source.size)
    if records[0].kind is not Kind.GRAPH:
        raise _broken(source, "a recording begins with its graph, this one does not", 0)
    return Scan(tuple(records), source.size - at)


def read_frame_of(source: FileSource, record: Record) -> Frame:
    """What a record holds."""
    return _reader(source, record).read()


def read_head_of(source: FileSource, record: Record) -> bytes:
    """The head of what a record holds; its sections, which may be large, are not read."""
    return _reader(source, record).read_head()


def _reader(source: FileSource, record: Record) -> FrameReader:
    return FrameReader(source, record.offset, record.size, f"the record of kind {record.kind.name.lower()}")


def opened(path: str | os.PathLike[str]) -> AbstractContextManager[FileSource]:
    """A file to read.

    Raises:
        ModelFormatError: it cannot be opened or read.
    """
    return open_source(path, "recording")


def looks_like_one(head: bytes) -> bool:
    """Whether a file that begins like this may be replaced by a recording: it is one, or empty."""
    return not head or head.startswith(MAGIC[: len(head)])


def _record_at(source: FileSource, at: int) -> Record | None:
    """The record at a place; None if it is cut off, as the last one of a killed application is."""
    left = source.size - at
    head = source.read(at, min(HEADER, left))
    if at == 0 and not head.startswith(MAGIC[: len(head)]):
        raise _broken(source, f"no recording: it begins with {head[:8]!r}, not with {MAGIC!r}", 0)
    if left < HEADER or not any(head):
        return None
    magic, version, kind, trans_id, size, digest = _HEADER.unpack(head)
    if magic != MAGIC:
        raise _broken(source, "altered: there is no record where one should begin", at)
    if version != VERSION:
        raise _broken(source, f"format version {version}; this dflow reads version {VERSION}", at + 8)
    end = at + HEADER + size
    if end > source.size:
        return None
    if _digest(source, head[:_DIGEST_AT], at + HEADER, size) != digest:
        if end == source.size:
            return None
        raise _broken(source, "altered: the checksum of a record differs", at)
    try:
        return Record(Kind(kind), trans_id, at + HEADER, size)
    except ValueError:
        raise _broken(source, f"a record of unknown kind {kind}", at) from None


def _refuse_later_ones(source: FileSource, at: int) -> None:
    """Refuse a file in which whole records follow a place where none begins: nobody was killed there."""
    place = at + ALIGN
    while place + HEADER <= source.size:
        piece = source.read(place, min(_PIECE, source.size - place) // ALIGN * ALIGN)
        starts = (place + i for i in range(0, len(piece), ALIGN) if piece.startswith(MAGIC, i))
        if any(_is_whole(source, start) for start in starts):
            raise _broken(source, "altered: no whole record begins here, but others follow", at)
        place += len(piece)


def _is_whole(source: FileSource, at: int) -> bool:
    try:
        return _record_at(source, at) is not None
    except ModelFormatError:
        return False


def _digest(source: FileSource, head: bytes, at: int, size: int) -> bytes:
    digest = hashlib.sha256(head)
    for start in range(0, size, _PIECE):
        digest.update(source.read(at + start, min(_PIECE, size - start)))
    return digest.digest()


def _broken(source: FileSource, text: str, offset: int) -> ModelFormatError:
    return ModelFormatError(text, path=source.path, offset=offset)


def total(chunks: Sequence[Buffer]) -> int:
    """Bytes of some buffers."""
    return sum(map(len, chunks))
