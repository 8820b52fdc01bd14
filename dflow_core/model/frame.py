"""A small message followed by raw sections: how everything large of a compiled graph is laid out.

    magic 8 | head size 8 | section count 8 | section sizes 8 each | head | padding | section | padding | ...

All numbers are little-endian and 64 bits wide; every section begins on a multiple of 64 bytes and the whole ends on
one. Sizes are compared with what there is before anything is read, so a broken frame costs no memory.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from dflow_core.errors import ModelFormatError

Buffer: TypeAlias = "bytes | bytearray | memoryview"

ALIGN = 64
_MAGIC = b"dflowfr1"
_START = struct.Struct("<8sQQ")
_SIZE = struct.Struct("<Q")
_PIECE = 1 << 30


@dataclass(frozen=True, slots=True)
class Frame:
    """A message and its raw sections."""

    head: bytes
    sections: tuple[bytes, ...] = ()


class Source(Protocol):
    """Bytes that can be read from any place: a file, or memory."""

    @property
    def path(self) -> str | None:
        """Name of the file, for errors."""

    @property
    def size(self) -> int:
        """How many bytes there are."""

    def read(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes; the caller has made sure that they exist."""


class BytesSource:
    """Bytes in memory.

    Args:
        data: Anything with contiguous bytes; not copied.
    """

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data).cast("B")
        self.path: str | None = None
        self.size = self._data.nbytes

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self._data[offset : offset + size])


class FileSource:
    """An open file; several threads may read it at once.

    Args:
        fd: Its descriptor; stays the caller's.
        path: Its name, for errors.
    """

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path: str | None = path
        self.size = os.fstat(fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        first = os.pread(self._fd, min(size, _PIECE), offset)
        if len(first) == size:
            return first
        # One call moves at most 2 GiB, and a file that shrinks meanwhile gives less than it had.
        data = bytearray(first)
        while len(data) < size:
            piece = os.pread(self._fd, min(size - len(data), _PIECE), offset + len(data))
            if not piece:
                raise ModelFormatError("the file became shorter while it was read", path=self.path, offset=self.size)
            data += piece
        return bytes(data)


@contextmanager
def open_source(path: str | os.PathLike[str], what: str) -> Iterator[FileSource]:
    """A file to read.

    Args:
        path: The file.
        what: What it should be, such as `model file`, for errors.

    Raises:
        ModelFormatError: it cannot be opened or read, or is no regular file.
    """
    name = os.fspath(path)
    try:
        # Not blocking: opening a pipe would wait for somebody to write.
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as cause:
        raise ModelFormatError(f"cannot be opened: {cause.strerror}", path=name) from cause
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ModelFormatError(f"no {what}: it is not a regular file", path=name)
        yield FileSource(fd, name)
    except OSError as cause:
        raise ModelFormatError(f"cannot be read: {cause.strerror}", path=name) from cause
    finally:
        os.close(fd)


class Hasher(Protocol):
    """What `hashlib` gives."""

    def update(self, data: Buffer, /) -> None: ...


class FrameReader:
    """Reads part of a source front to back and refuses to leave it.

    Args:
        source: Where the bytes are.
        offset, size: The part; must lie within the source.
        what: What is read, for errors, such as `partition 2 (submodel 'ocr')`.
        hasher: Takes every byte read.
    """

    def __init__(self, source: Source, offset: int, size: int, what: str, hasher: Hasher | None = None) -> None:
        self._source, self._at, self._end, self._what, self._hasher = source, offset, offset + size, what, hasher

    def read(self) -> Frame:
        """The frame that fills the part.

        Raises:
            ModelFormatError: if it does not; says at which byte.
        """
        start = self._at
        head, sizes = self._begin()
        self._pad(start)
        sections = []
        for number, size in enumerate(sizes):
            sections.append(self._take(size, f"section {number}"))
            self._pad(start)
        if self._at != self._end:
            raise self._error(f"{self._what} has {self._end - self._at} bytes too many", self._at)
        return Frame(head, tuple(sections))

    def _begin(self) -> tuple[bytes, list[int]]:
        """The head, and the sizes of the sections."""
        start = self._at
        magic, head_size, count = _START.unpack(self._take(_START.size, "its start"))
        if magic != _MAGIC:
            raise self._error(f"{self._what} does not begin as it should", start)
        table = self._take(count * _SIZE.size, f"the sizes of its {count} sections")
        return self._take(head_size, "its head"), [size for (size,) in _SIZE.iter_unpack(table)]

    def read_head(self) -> bytes:
        """The message of the frame, without its sections.

        Raises:
            ModelFormatError: no frame begins here; says at which byte.
        """
        return self._begin()[0]

    def _take(self, size: int, part: str) -> bytes:
        left = self._end - self._at
        if size > left:
            raise self._error(f"{self._what} is cut off: {part} should be {size} bytes, {left} are left", self._at)
        data = self._source.read(self._at, size)
        if self._hasher is not None:
            self._hasher.update(data)
        self._at += size
        return data

    def _pad(self, start: int) -> None:
        self._take(padding(self._at - start), "padding")

    def _error(self, text: str, offset: int) -> ModelFormatError:
        return ModelFormatError(text, path=self._source.path, offset=offset)


def padding(size: int) -> int:
    """Bytes that are missing to the next multiple of 64."""
    return -size % ALIGN


def frame_size(head_size: int, section_sizes: Sequence[int]) -> int:
    """Bytes of a frame with parts of these sizes."""
    size = _START.size + _SIZE.size * len(section_sizes) + head_size
    size += padding(size)
    return size + sum(section + padding(section) for section in section_sizes)


def frame_chunks(frame: Frame) -> list[Buffer]:
    """The frame as buffers to be written one after the other; the sections themselves are not copied."""
    return laid_out(frame.head, [(section,) for section in frame.sections])


def laid_out(head: bytes, sections: Sequence[Sequence[Buffer]]) -> list[Buffer]:
    """A frame as `frame_chunks` has it, with sections that lie in several pieces; each piece of one-byte items."""
    sizes = [sum(map(len, section)) for section in sections]
    start = b"".join((_START.pack(_MAGIC, len(head), len(sections)), *map(_SIZE.pack, sizes), head))
    chunks: list[Buffer] = [start + bytes(padding(len(start)))]
    for section, size in zip(sections, sizes):
        chunks += section
        if padding(size):
            chunks.append(bytes(padding(size)))
    return chunks


def read_head(data: Buffer, what: str = "the frame") -> bytes:
    """The message of the frame that `data` begins with; raises as `read_frame`."""
    source = BytesSource(data)
    return FrameReader(source, 0, source.size, what).read_head()


def read_frame(data: Buffer, what: str = "the frame") -> Frame:
    """The frame that fills `data`.

    Raises:
        ModelFormatError: if it does not; says at which byte.
    """
    source = BytesSource(data)
    return FrameReader(source, 0, source.size, what).read()
