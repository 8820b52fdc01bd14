"""What a test may leave behind on a machine, read from /proc (Linux)."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_POLL = 0.01


@dataclass(frozen=True, slots=True)
class MachineState:
    """What there is at one moment.

    Args:
        processes: Descendants of this process, zombies too, and orphans of its session: pid and command.
        threads: Python threads of this process.
        descriptors: Open file descriptors of this process, with what they lead to.
        shared_memory: Names in /dev/shm.
        files: Paths below the folder watched.
    """

    processes: frozenset[str]
    threads: frozenset[str]
    descriptors: frozenset[str]
    shared_memory: frozenset[str]
    files: frozenset[str]

    @classmethod
    def now(cls, folder: Path | None = None) -> MachineState:
        """The state at this moment.

        Args:
            folder: Folder in which nothing may be left.
        """
        return cls(
            frozenset(_processes()),
            frozenset(f"{thread.name} ({thread.ident})" for thread in threading.enumerate()),
            frozenset(_descriptors()),
            frozenset(_names(Path("/dev/shm"))),
            frozenset(str(path) for path in folder.rglob("*")) if folder is not None else frozenset(),
        )

    def new_since(self, before: MachineState) -> list[str]:
        """What is here and was not there before, one line each."""
        kinds = {
            "process": self.processes - before.processes,
            "thread": self.threads - before.threads,
            "descriptor": self.descriptors - before.descriptors,
            "shared memory": self.shared_memory - before.shared_memory,
            "file": self.files - before.files,
        }
        return [f"{kind} {name}" for kind, names in kinds.items() for name in sorted(names)]


class CleanMachine:
    """Compares the machine with how it was.

    Args:
        folder: Folder in which nothing may be left.
        limit: Seconds in which what a test started may still go away.
    """

    def __init__(self, folder: Path | None = None, limit: float = 3.0) -> None:
        self.folder = folder
        self.limit = limit
        self._before = MachineState.now(folder)

    def left(self) -> list[str]:
        """What is left, after waiting for it to go away."""
        return wait_for_nothing(lambda: MachineState.now(self.folder).new_since(self._before), self.limit)

    def check(self) -> None:
        """Fail if anything is left."""
        left = self.left()
        assert not left, "left behind:\n  " + "\n  ".join(left)


def wait_for_nothing(look: Callable[[], list[str]], limit: float) -> list[str]:
    """Look until nothing is there or the limit (seconds) has passed; returns what is there then."""
    end = time.monotonic() + limit
    while True:
        gc.collect()
        found = look()
        if not found or time.monotonic() >= end:
            return found
        time.sleep(_POLL)


def _processes() -> Iterator[str]:
    table = dict(_table())
    own, session = os.getpid(), os.getsid(0)
    for pid, process in table.items():
        if _descends(pid, own, table):
            yield f"{pid} {process.command}{' (zombie)' if process.state == 'Z' else ''}"
        elif process.parent == 1 and process.session == session and pid != own and process.state != "Z":
            yield f"{pid} {process.command} (orphan)"


@dataclass(frozen=True, slots=True)
class _Process:
    command: str
    state: str
    parent: int
    session: int


def _table() -> Iterator[tuple[int, _Process]]:
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{name}/stat").read_text()
            # The command is in brackets and may hold any character, brackets too.
            command, _, rest = text.partition("(")[2].rpartition(")")
            state, parent, _group, session = rest.split()[:4]
            yield int(name), _Process(command, state, int(parent), int(session))


def _descends(pid: int, ancestor: int, table: dict[int, _Process]) -> bool:
    while pid in table:
        pid = table[pid].parent
        if pid == ancestor:
            return True
    return False


def _descriptors() -> Iterator[str]:
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one this listing used
            yield f"{fd} -> {os.readlink(f'/proc/self/fd/{fd}')}"


def _names(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from os.listdir(folder)
