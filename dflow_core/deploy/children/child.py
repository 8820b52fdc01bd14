"""The first steps of an executor process, whether forked from the template or started as a program of its own.

What an executor *does* is not known here: the settings name a module whose `main(control_fd, prepared)` takes over.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import io
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NoReturn

from dflow_core.deploy.children.processes import die_with_parent, name_process


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """How an executor process is set up.

    Args:
        module: Module whose `main(control_fd, prepared)` it runs.
        name: Name that process lists show.
        folder: Its current folder.
        environment: Its whole environment.
        path: Its `sys.path`; empty leaves it as the interpreter has it.
        argv: Its `sys.argv`.
    """

    module: str
    name: str = ""
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    argv: tuple[str, ...] = ("",)

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ChildSettings:
        """The inverse of `to_json`."""
        fields = json.loads(text)
        return cls(**{**fields, "path": tuple(fields["path"]), "argv": tuple(fields["argv"])})


@dataclass(frozen=True, slots=True)
class ChildFds:
    """Descriptors of an executor: control connection, memory file for stdout and stderr, and one for stacks."""

    control: int
    output: int
    stacks: int


def become_executor(settings: ChildSettings, fds: ChildFds, parent: int, prepared: object = None) -> NoReturn:
    """Set this process up, run the module's `main`, and end.

    Args:
        settings: How.
        fds: Its descriptors.
        parent: Process id of the parent that started it.
        prepared: What the module's `prepare` gave in the template; None in a program of its own.
    """
    code = 1
    try:
        die_with_parent(parent)
        _set_up_signals()
        _set_up_streams(fds)
        _set_up_interpreter(settings)
        code = importlib.import_module(settings.module).main(fds.control, prepared)
    except BaseException:
        import traceback

        with contextlib.suppress(Exception):
            traceback.print_exc()
    finally:
        _leave(code)


def _leave(code: int) -> NoReturn:
    """End without the interpreter's clean-up, which waits for user threads and runs into half-closed libraries."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).fflush(None)
    os._exit(code)


def _set_up_signals() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN if number == signal.SIGPIPE else signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _set_up_streams(fds: ChildFds) -> None:
    """Let everything printed, also by C code, go line by line into the memory file; crashes leave a stack there."""
    os.dup2(fds.output, 1)
    os.dup2(fds.output, 2)
    os.set_inheritable(fds.control, False)
    os.set_inheritable(fds.stacks, False)
    if fds.output > 2:
        os.close(fds.output)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    with contextlib.suppress(Exception):
        libc = ctypes.CDLL(None)
        by_line = 1
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, by_line, 0)
    faulthandler.enable(2)
    # Read from a signal handler in C, the stack of a thread that runs on meanwhile can crash the process: that way is
    # for an interpreter that is stuck (SIGUSR2). One that works writes the stacks itself, while no thread runs.
    signal.signal(signal.SIGUSR1, lambda *_: faulthandler.dump_traceback(fds.stacks, all_threads=True))
    faulthandler.register(signal.SIGUSR2, fds.stacks, all_threads=True)


def _set_up_interpreter(settings: ChildSettings) -> None:
    if settings.name:
        name_process(settings.name)
    if settings.environment:
        os.environ.clear()
        os.environ.update(settings.environment)
    if settings.folder:
        with contextlib.suppress(OSError):
            os.chdir(settings.folder)
    if settings.path:
        sys.path[:] = settings.path
        importlib.invalidate_caches()
    sys.argv[:] = settings.argv


def child_command(python: str, fds: ChildFds, settings_fd: int) -> list[str]:
    """The command that starts an executor as a program of its own.

    Args:
        python: Interpreter.
        fds: Its descriptors, which it has to inherit.
        settings_fd: Memory file with its `ChildSettings` as JSON, inherited too.
    """
    numbers = map(str, (fds.control, fds.output, fds.stacks, settings_fd, os.getpid()))
    return [python, "-m", "dflow_core.deploy", "executor", *numbers]


def main(argv: list[str]) -> NoReturn:
    """Entry of an executor started with `child_command`."""
    control, output, stacks, settings_fd, parent = map(int, argv)
    with open(settings_fd, encoding="utf-8") as file:
        file.seek(0)
        settings = ChildSettings.from_json(file.read())
    become_executor(settings, ChildFds(control, output, stacks), parent)
