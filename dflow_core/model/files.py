"""Files that are complete or not there: written beside their place, flushed, then renamed into it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

from dflow_core.model.frame import Buffer


def write_atomically(path: str | os.PathLike[str], chunks: Iterable[Buffer]) -> int:
    """Write a file so that nobody ever sees half of it, however this process or machine ends.

    Args:
        path: Its name; a file of that name is replaced.
        chunks: What is written, one after the other.

    Returns:
        Bytes written.

    Raises:
        OSError: if it cannot be written; nothing is left behind then.
    """
    # Not the name with a suffix: one that just fits the file system would be too long.
    temporary = os.path.join(os.path.dirname(os.fspath(path)), f".tmp-{os.getpid()}-{os.urandom(8).hex()}")
    size = 0
    try:
        with open(temporary, "xb") as file:
            for chunk in chunks:
                size += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return size
