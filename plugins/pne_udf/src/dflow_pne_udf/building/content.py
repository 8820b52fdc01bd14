"""What a build depends on, by content: the workspace, and the files outside it that the tools said they had read."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dflow_core.errors import CompileError

_CHUNK = 1 << 20
_SYSTEM = ("/usr/", "/lib/", "/lib64/")
"""Files below these are known by size and time: packages of the system are not edited by hand."""
_QUOTED = re.compile(r'^\s*"(.+)"\s*$')


def workspace_digest(workspace: str, leave_out: str) -> str:
    """A digest of names and contents of all files of a workspace.

    Args:
        workspace: The folder.
        leave_out: A file that does not count.

    Raises:
        CompileError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for name in _files(workspace):
        path = os.path.join(workspace, name)
        if path == leave_out:
            continue
        try:
            content = file_digest(path)
        except OSError as cause:
            raise CompileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
        digest.update(f"{name}\0{content}\0{os.access(path, os.X_OK)}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def workspace_files(workspace: str) -> list[str]:
    """Paths of the files of a workspace, in order."""
    return [os.path.join(workspace, name) for name in _files(workspace)]


def file_digest(path: str) -> str:
    """SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def record(paths: Sequence[str], workspace: str, leave_out: Sequence[str]) -> dict[str, str]:
    """What to compare later: a text for each file outside the workspace that changes with it.

    Args:
        paths: Files that were read.
        workspace: Its files are known already.
        leave_out: Folders whose files do not count.
    """
    inside = tuple(os.path.join(folder, "") for folder in (workspace, os.path.realpath(workspace), *leave_out))
    outside = sorted({path for path in map(os.path.normpath, paths) if not path.startswith(inside)})
    return {path: state for path in outside if (state := state_of(path))}


def state_of(path: str) -> str:
    """A text that changes with a file; "" where there is none."""
    if path.startswith(_SYSTEM):
        # Many projects read the same two hundred headers: they are looked at once a second.
        return _system_state(path, int(time.monotonic()))
    try:
        stat = os.stat(path)
        return _known(path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    except OSError:
        return ""


def is_unchanged(recorded: Mapping[str, str]) -> bool:
    """Whether every file of a record is as it was."""
    return all(state_of(path) == state for path, state in recorded.items())


def files_read(tree: Path, source: str) -> list[str]:
    """The files a build has read: sources and headers, CMake files, libraries it linked.

    Args:
        tree: Build folder.
        source: Folder of the CMakeLists.
    """
    found: list[str] = []
    for depfile in tree.rglob("*.d"):
        found += _depfile(depfile.read_text("utf-8", "surrogateescape"))
    makefile = tree / "CMakeFiles" / "Makefile.cmake"
    if makefile.is_file():
        names = makefile.read_text("utf-8", "surrogateescape").splitlines()
        found += [match[1] for line in names if (match := _QUOTED.match(line))]
    for link in tree.rglob("link.txt"):
        words = link.read_text("utf-8", "surrogateescape").split()
        found += [word for word in words if word.startswith("/") and re.search(r"\.(a|o|so(\.\d+)*)$", word)]
    places = (str(tree), source)
    return [path for name in found for path in _candidates(name, places) if os.path.isfile(path)]


def _candidates(name: str, places: Sequence[str]) -> Iterator[str]:
    if os.path.isabs(name):
        yield name
    else:
        yield from (os.path.join(place, name) for place in places)


def _depfile(text: str) -> list[str]:
    """The prerequisites of a makefile rule that a compiler wrote."""
    _, _, after = text.replace("\\\n", " ").partition(": ")
    words = re.findall(r"(?:\\.|[^\s\\])+", after.partition("\n")[0])
    return [re.sub(r"\\(.)", r"\1", word).replace("$$", "$") for word in words]


def _files(workspace: str) -> Iterator[str]:
    """Relative paths of the files of a workspace, in order; links to folders are followed once."""
    seen: set[str] = set()
    for folder, folders, names in os.walk(workspace, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not _is_no_source(workspace, folder, name))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                yield os.path.relpath(path, workspace)


def _is_no_source(workspace: str, folder: str, name: str) -> bool:
    """Whether a folder holds nothing anybody wrote: hidden ones, build folders of CMake and of upstream."""
    if name.startswith(".") or name == "__pycache__":
        return True
    is_upstreams = name.startswith("_") and folder == os.path.join(workspace, "build")
    return is_upstreams or os.path.isfile(os.path.join(folder, name, "CMakeCache.txt"))


@functools.lru_cache(maxsize=4096)
def _system_state(path: str, _second: int) -> str:
    try:
        stat = os.stat(path)
    except OSError:
        return ""
    return f"{stat.st_size} {stat.st_mtime_ns}"


@functools.lru_cache(maxsize=4096)
def _known(path: str, _inode: int, _size: int, _modified: int, _changed: int) -> str:
    return file_digest(path)
