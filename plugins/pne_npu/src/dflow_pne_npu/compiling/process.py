"""Runs a program with a time limit, and ends everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess  # noqa: TID251 -- atc is a program; this is the only place that starts one
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """What a program left.

    Args:
        status: Its exit status; None if it had to be ended.
        text: What it wrote, stdout and stderr.
    """

    status: int | None
    text: str


def run_program(command: Sequence[str], folder: Path, timeout: float) -> Finished:
    """Run a program in a folder.

    Args:
        command: Its words.
        folder: Current folder of the program.
        timeout: Seconds; then it and its children are killed.

    Raises:
        OSError: it cannot be started.
    """
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout)
        return Finished(process.returncode, output.decode("utf-8", "replace"))
    except subprocess.TimeoutExpired:
        _end(process)
        output, _ = process.communicate()
        return Finished(None, output.decode("utf-8", "replace"))
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the group it leads; children that are left after its own end, too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
