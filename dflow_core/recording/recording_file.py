"""A recording being written: append, and write anew without what is no longer kept."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Sequence

from dflow_core.errors import OptionError
from dflow_core.model import Buffer
from dflow_core.recording.file_format import looks_like_one, total
from dflow_core.recording.keeper import Piece

_MOST_BUFFERS = 512  # of one writev; POSIX allows 1024
_COPIED_AT_ONCE = 1 << 26


class RecordingFile:
    """Writes one file; a recording of that name is replaced. Not thread-safe.

    Args:
        path: Its name.
        first: Buffers of the record it begins with, which is always kept.

    Raises:
        OptionError: it cannot be written, another graph writes it, or a file of that name is something else.
    """

    def __init__(self, path: str, first: Sequence[Buffer]) -> None:
        self.path = path
        self._fd = -1
        self._end = self._first = total(first)
        try:
            self._refuse_others()
            self._fd = self._begin()
            _write(self._fd, first)
            os.replace(self._temporary, path)
        except OSError as cause:
            self.close()
            raise OptionError(f"option 'record': {path} cannot be written: {cause.strerror}") from cause

    def append(self, chunks: Sequence[Buffer]) -> int:
        """Write a record; gives its offset.

        Raises:
            OSError: it cannot be written; the file ends with the record before it.
        """
        at = self._end
        try:
            _write(self._fd, chunks)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, at)
                os.lseek(self._fd, at, os.SEEK_SET)
            raise
        self._end += total(chunks)
        return at

    def rewrite(self, pieces: Sequence[Piece]) -> None:
        """Write the file anew with its first record and these ones, whose offsets change.

        Raises:
            OSError: it cannot be written; the file stays as it is.
        """
        fd = self._begin()
        try:
            places = []
            at = _copy(self._fd, fd, 0, self._first)
            for piece in pieces:
                places.append(at)
                at += _copy(self._fd, fd, piece.offset, piece.size)
            os.replace(self._temporary, self.path)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(self._temporary)
            raise
        os.close(self._fd)
        self._fd, self._end = fd, at
        for piece, place in zip(pieces, places):
            piece.offset = place

    def close(self) -> None:
        """Close it. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    @property
    def _temporary(self) -> str:
        """Where the file is written anew: always the same, so that what a kill leaves is used again and not left."""
        folder, name = os.path.split(self.path)
        return os.path.join(folder, ".dfrec-" + hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest())

    def _begin(self) -> int:
        """The new file, locked from its first moment."""
        fd = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _refuse_others(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        try:
            if not looks_like_one(os.pread(fd, 8, 0)):
                raise OptionError(
                    f"option 'record': {self.path} exists and is no recording", hint="give another name, or remove it"
                )
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(
                f"option 'record': {self.path} is being written by another graph",
                hint="give each graph a file of its own, or name a folder",
            ) from None
        finally:
            os.close(fd)


def _write(fd: int, chunks: Sequence[Buffer]) -> None:
    rest = [memoryview(chunk).cast("B") for chunk in chunks if len(chunk)]
    while rest:
        written = os.writev(fd, rest[:_MOST_BUFFERS])
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if written:
            rest[0] = rest[0][written:]


def _copy(source: int, target: int, offset: int, size: int) -> int:
    done = 0
    while done < size:
        count = os.sendfile(target, source, offset + done, min(size - done, _COPIED_AT_ONCE))
        if not count:
            raise OSError(f"{size - done} bytes are missing")
        done += count
    return size
