"""Built packages kept by content, and the folders builds run in.

    kept/<base>.json       what a build had read outside its workspace, and the package that came out
    kept/<digest>.tar.gz   packages
    trees/<id>/            build folder of one project with one set of tools, and the lock of who builds in it

`base` is made of everything that is known before a build. A package is written whole before a record names it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dflow_core.errors import CompileError
from dflow_core.model import write_atomically
from dflow_pne_udf.building.content import is_unchanged

_POLL = 0.02


class BuildStore:
    """A folder with packages and build trees; any number of threads and processes may use it at once.

    Args:
        folder: Where it is; made when something is written.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._kept = self.folder / "kept"

    def find(self, base: str) -> bytes | None:
        """The package of a build whose inputs are all as they are now, or None."""
        try:
            record = json.loads((self._kept / f"{base}.json").read_bytes())
            read, digest = dict(record["read"]), str(record["package"])
            if not is_unchanged(read):
                return None
            package = (self._kept / f"{digest}.tar.gz").read_bytes()
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return package if hashlib.sha256(package).hexdigest() == digest else None

    def keep(self, base: str, read: Mapping[str, str], package: bytes) -> None:
        """Keep a package under everything that went into it."""
        digest = hashlib.sha256(package).hexdigest()
        self._kept.mkdir(parents=True, exist_ok=True)
        write_atomically(self._kept / f"{digest}.tar.gz", [package])
        text = json.dumps({"package": digest, "read": dict(read)}).encode("utf-8", "surrogatepass")
        write_atomically(self._kept / f"{base}.json", [text])

    def clear(self) -> tuple[int, int]:
        """Delete everything but build folders in use; says how many packages that was, and how many bytes."""
        packages = len(list(self._kept.glob("*.tar.gz")))
        before = _size(self.folder)
        for folder in (self._kept, self.folder / "unpacked"):
            shutil.rmtree(folder, ignore_errors=True)
        for tree in list(self.folder.glob("trees/*")):
            with contextlib.suppress(OSError, CompileError), self.tree(tree.name, 0.0, lambda: False):
                shutil.rmtree(tree, ignore_errors=True)
        return packages, before - _size(self.folder)

    @contextlib.contextmanager
    def tree(self, name: str, limit: float, cancelled: Callable[[], bool]) -> Iterator[tuple[Path, int]]:
        """A build folder that is this thread's alone, and the descriptor of its lock.

        Whoever inherits the descriptor holds the lock too, so that nobody builds where a leftover still writes.

        Raises:
            CompileError: it was not free within the limit (seconds), the folder cannot be written, or it was cancelled.
        """
        folder = self.folder / "trees" / name
        while True:
            lock = _open_lock(folder)
            try:
                _acquire(lock, folder, limit, cancelled)
                if _is_there(lock, folder):
                    yield folder, lock
                    return
            finally:
                os.close(lock)


def _open_lock(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as cause:
        raise CompileError(
            f"{folder}: the folder for builds cannot be written: {cause.strerror or cause}",
            hint="set the option cache_dir to a folder that can",
        ) from cause


def _is_there(lock: int, folder: Path) -> bool:
    """Whether the lock is still the folder's: `clear` may have removed both while it was waited for."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(folder / "lock"))
    except OSError:
        return False


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size
    return total


def _acquire(lock: int, folder: Path, limit: float, cancelled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + limit
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if cancelled():
                raise CompileError("the compilation was given up") from None
            if time.monotonic() > deadline:
                raise CompileError(
                    f"{folder} is used by another build for more than {limit:g} s",
                    hint="the option plugin.udf.build_timeout sets the limit in seconds",
                ) from None
            time.sleep(_POLL)
