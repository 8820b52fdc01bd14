"""Where the output of executors goes: the application's stderr, Python's logging, files, or nowhere."""

from __future__ import annotations

import abc
import contextlib
import logging
import os
import re
import select
import stat
import sys
from pathlib import Path

from dflow_core.errors import OptionError

_SAFE_PIECE = 512  # what poll promises to fit into a pipe is at least this (POSIX PIPE_BUF)
_LABEL = re.compile(rb"^\[(.*?)\] (.*)$")


class Sink(abc.ABC):
    """Takes marked lines, `[node#instance] text`."""

    @abc.abstractmethod
    def write(self, data: bytes) -> int:
        """Take some of the bytes without ever blocking for long; gives how many were taken."""

    def close(self) -> None:
        """Let go of what it holds. Idempotent."""


class NullSink(Sink):
    """Takes everything and keeps nothing."""

    def write(self, data: bytes) -> int:
        return len(data)


class StderrSink(Sink):
    """The application's stderr as it is at the moment, also where it was replaced (notebooks, test runners)."""

    def __init__(self) -> None:
        self._fd: _DescriptorWriter | None = None

    def write(self, data: bytes) -> int:
        stream = sys.stderr
        if stream is sys.__stderr__ and stream is not None:
            if self._fd is None:
                self._fd = _DescriptorWriter(stream.fileno())
            return self._fd.write(data)
        if stream is not None:
            stream.write(data.decode("utf-8", "backslashreplace"))
            stream.flush()
        return len(data)

    def close(self) -> None:
        if self._fd is not None:
            self._fd.close()
            self._fd = None


class LoggingSink(Sink):
    """Python's logging: one record a line, logger `dflow.node.<node#instance>`, level INFO."""

    def write(self, data: bytes) -> int:
        for line in data.splitlines():
            match = _LABEL.match(line)
            label, text = match.groups() if match else (b"", line)
            logging.getLogger(f"dflow.node.{label.decode()}").info("%s", text.decode("utf-8", "backslashreplace"))
        return len(data)


class FolderSink(Sink):
    """A file for each process in a folder, `<node#instance>.log`, written to its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, data: bytes) -> int:
        texts: dict[str, bytes] = {}
        for line in data.splitlines(keepends=True):
            match = _LABEL.match(line.rstrip(b"\n"))
            label, text = match.groups() if match else (b"dflow", line)
            name = re.sub(r"[^\w#@.:-]", "_", label.decode())
            texts[name] = texts.get(name, b"") + text.rstrip(b"\n") + b"\n"
        for name, text in texts.items():
            with open(self._folder / f"{name}.log", "ab") as file:
                file.write(text)
        return len(data)


def make_sink(option: str) -> Sink:
    """The sink an option names: `stderr` (also ""), `logging`, `none`, or `dir:PATH`.

    Raises:
        OptionError: if it names none.
    """
    if option in ("", "stderr"):
        return StderrSink()
    if option == "logging":
        return LoggingSink()
    if option == "none":
        return NullSink()
    if option.startswith("dir:") and len(option) > 4:
        return FolderSink(Path(option[4:]))
    raise OptionError(
        f"option output={option!r} names no place for what nodes print", hint="stderr, logging, none, or dir:PATH"
    )


class _DescriptorWriter:
    """Writes to a descriptor without blocking and without changing it for the others that share it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._own = -1
        mode = os.fstat(fd).st_mode
        self._file = stat.S_ISREG(mode)
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            # Opened anew it has flags of its own, so O_NONBLOCK is for us alone.
            with contextlib.suppress(OSError):
                self._own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def write(self, data: bytes) -> int:
        if self._own >= 0 or self._file:
            try:
                return os.write(self._own if self._own >= 0 else self._fd, data)
            except BlockingIOError:
                return 0
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        taken = 0
        while taken < len(data) and any(event & select.POLLOUT for _, event in poll.poll(0)):
            taken += os.write(self._fd, data[taken : taken + _SAFE_PIECE])
        return taken

    def close(self) -> None:
        if self._own >= 0:
            os.close(self._own)
            self._own = -1
