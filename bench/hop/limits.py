"""The same with nothing but a ring between processes (`limit.c`): what no transport can beat."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 60


class Limits:
    """The compiled program, in a folder of its own that goes with `close`."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dflow-bench-"))
        self.missing = ""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            self.missing = "no C compiler"
            return
        command = [compiler, "-std=c11", "-O2", "-o", str(self._folder / "limit"), str(HERE / "limit.c")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            self.missing = f"limit.c does not compile: {done.stderr[-300:]}"

    def __call__(self, what: str, size: int, depth: int, amount: float) -> list[float]:
        """The figures that `limit` prints."""
        command = [str(self._folder / "limit"), what, str(size), str(depth), str(amount)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        return [float(word) for word in done.stdout.split()]

    def close(self) -> None:
        """Remove the program."""
        shutil.rmtree(self._folder, ignore_errors=True)
