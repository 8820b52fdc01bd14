"""What the objects in a build folder were made of, because make goes by time stamps and those may lie.

A file that is put back from a copy, or is edited while it is compiled, can be older than the object made of another
version of it. So a build folder remembers the contents of all files it was built from and when that ended; where one
has changed and is not newer than that, everything is compiled again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from dflow_core.model import write_atomically
from dflow_pne_udf.building.content import file_digest

_NAME = "sources.json"


class TreeState:
    """The memory of one build folder; used with its lock held.

    Args:
        tree: The folder.
    """

    def __init__(self, tree: Path) -> None:
        self._path = tree / _NAME
        self._files: dict[str, str] = {}
        self._ended = 0
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            said = json.loads(self._path.read_bytes())
            self._files, self._ended = dict(said["files"]), int(said["ended"])

    def is_sound(self, sources: Iterable[str]) -> bool:
        """Whether make will notice every change since the last build.

        Args:
            sources: Files that may be read now, besides those that were.
        """
        names = {*sources, *self._files}
        return bool(self._ended) and all(
            _digest(name) == self._files.get(name, "") or _changed(name) > self._ended for name in names
        )

    def begin(self, sources: Iterable[str]) -> None:
        """A build begins: until `end` is called, nothing in the folder is to be trusted."""
        self._path.unlink(missing_ok=True)
        self._files, self._ended = {name: _digest(name) for name in {*sources, *self._files}}, 0

    def end(self, read: Iterable[str] = ()) -> None:
        """It has ended, well or not.

        Args:
            read: Files it is known to have read.
        """
        self._files |= {name: _digest(name) for name in read if name not in self._files}
        self._save(time.time_ns())

    def _save(self, ended: int) -> None:
        text = json.dumps({"files": self._files, "ended": ended}).encode("utf-8", "surrogatepass")
        with contextlib.suppress(OSError):  # without it, the next build compiles everything
            write_atomically(self._path, [text])


def _digest(path: str) -> str:
    try:
        return file_digest(path)
    except OSError:
        return ""


def _changed(path: str) -> int:
    """When a file was written; 0 if it is gone, which make may take for up to date."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
