"""Files that exist in memory only and have no name in any file system."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterable

_KEEP_SIZE_AND_PUNCH = 0x01 | 0x02
_PIECE = 1 << 30


def memory_file(name: str) -> int:
    """A new memory file; gives its descriptor, which children do not inherit. Writes always go to its end.

    Args:
        name: What `/proc/<pid>/fd` shows.
    """
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create(name.encode("utf-8", "replace")[:200].decode("utf-8", "ignore"), os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
    return fd


def write_all(fd: int, chunks: Iterable[bytes | bytearray | memoryview]) -> None:
    """Write everything; one system call moves at most 2 GiB."""
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        while view:
            view = view[os.write(fd, view[:_PIECE]) :]


def punch_hole(fd: int, start: int, end: int) -> None:
    """Give the memory of a part back; it reads as zeros then. Does nothing where the system cannot."""
    if sys.platform != "linux" or end <= start:
        return
    with contextlib.suppress(AttributeError):
        fallocate = ctypes.CDLL(None).fallocate64
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        fallocate(fd, _KEEP_SIZE_AND_PUNCH, start, end - start)
