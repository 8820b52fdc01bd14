"""What is compiled for a run: nothing but a ring between processes (`limit.c`), and ends in C (`table_hop.c`)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from dflow_core.spi import include_dir

HERE = Path(__file__).resolve().parent
LIMIT = 60


class Limits:
    """The compiled programs, in a folder of their own that goes with `close`.

    Attributes:
        library: The ends in C, as a shared library.
        missing: Why there are none, "" if there are.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dflow-bench-"))
        self._program, self.library = self._folder / "limit", self._folder / "table_hop.so"
        self.missing = ""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            self.missing = "no C compiler"
            return
        common = [compiler, "-std=c11", "-O2", "-D_GNU_SOURCE", f"-I{include_dir()}"]
        self._run([*common, "-o", str(self._program), str(HERE / "limit.c")])
        self._run([*common, "-shared", "-fPIC", "-o", str(self.library), str(HERE / "table_hop.c")])

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
        if done.returncode:
            self.missing = f"{command[-1]} does not compile: {done.stderr[-300:]}"

    def __call__(self, what: str, size: int, depth: int, amount: float) -> list[float]:
        """The figures that `limit` prints."""
        command = [str(self._program), what, str(size), str(depth), str(amount)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        return [float(word) for word in done.stdout.split()]

    def close(self) -> None:
        """Remove the programs."""
        shutil.rmtree(self._folder, ignore_errors=True)
