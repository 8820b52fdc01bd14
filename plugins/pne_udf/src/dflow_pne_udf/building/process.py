"""Runs build tools: the only module here that starts processes.

A tool and everything it starts are one process group behind a small guard, which ends the group when the process that
wanted it is gone, however that ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from dflow_core.errors import CompileError

_GUARD = """
import ctypes, os, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))
ctypes.CDLL(None).prctl(1, 15)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
code = subprocess.call(sys.argv[2:])
sys.exit(code if code >= 0 else 128 - code)
"""
_SLICE = 0.02


def run_tool(
    command: Sequence[str], *, folder: str, environment: Mapping[str, str], log: str, limit: float,
    cancelled: Callable[[], bool], keep: Sequence[int] = (),
) -> int:
    """Run a tool to its end.

    Args:
        command: Program and arguments.
        folder: Where it runs.
        environment: Its environment.
        log: File its output is appended to.
        limit: Seconds it may take.
        cancelled: Whether nobody wants the result any more; asked often.
        keep: Descriptors it inherits.

    Returns:
        Exit code; 128 and the signal's number where a signal ended it.

    Raises:
        CompileError: it took too long, could not be started, or was cancelled; all of it has been killed then.
    """
    guarded = [sys.executable, "-I", "-S", "-c", _GUARD, str(os.getpid()), *command]
    with open(log, "ab") as output:
        try:
            process = subprocess.Popen(
                guarded, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, pass_fds=keep,
            )
        except OSError as cause:
            raise CompileError(f"{command[0]} cannot be started: {cause.strerror or cause}") from cause
    try:
        _wait(process.pid, os.path.basename(command[0]), limit, cancelled)
    finally:
        # Before it is reaped: until then its number is no other group's.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode


def read_tool(command: Sequence[str], limit: float = 30.0, environment: Mapping[str, str] | None = None) -> str | None:
    """What a tool prints to standard output, or None if it cannot be asked within the limit (seconds)."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _wait(pid: int, name: str, limit: float, cancelled: Callable[[], bool]) -> None:
    """Wait until a child has ended; it is not reaped."""
    deadline = time.monotonic() + limit
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if cancelled():
            raise CompileError(f"{name} was ended: the compilation was given up")
        if time.monotonic() > deadline:
            raise CompileError(
                f"{name} took more than {limit:g} s and was ended",
                hint="the option plugin.udf.build_timeout sets the limit in seconds",
            )
        time.sleep(_SLICE)
