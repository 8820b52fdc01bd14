from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dflow_core.spi.transport import Transport
from dflow_transport_shm import ShmTransport

NATIVE = Path(__file__).resolve().parent / "native"

QUIET = {"TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}


@pytest.fixture
def transport() -> Transport:
    return ShmTransport()


def _probe(compiler: str, sanitizer: str, out: Path) -> None:
    """Skip if the compiler has no such sanitizer that works here."""
    command = [compiler, f"-fsanitize={sanitizer}", "-x", "c", "-", "-o", str(out / "probe")]
    nothing = "int main(void) { return 0; }\n"
    probed = subprocess.run(command, input=nothing, capture_output=True, text=True, timeout=30)
    if probed.returncode or subprocess.run([out / "probe"], capture_output=True, timeout=30).returncode:
        pytest.skip(f"the compiler has no -fsanitize={sanitizer} that works here")


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """`native(program, *args, sanitizer="", limit=150)`: what a program of `native/` prints; it must end well."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    folders: dict[str, Path] = {}

    def build(program: str, sanitizer: str) -> Path:
        if not compiler or not shutil.which("make"):
            pytest.skip("no C compiler or no make")
        if sanitizer not in folders:
            out = tmp_path_factory.mktemp("native")
            if sanitizer:
                _probe(compiler, sanitizer, out)
            folders[sanitizer] = out
        target = folders[sanitizer] / program
        make = ["make", "-s", "-j2", "-C", str(NATIVE), f"SAN={sanitizer}", f"OUT={target.parent}", f"CC={compiler}"]
        done = subprocess.run([*make, str(target)], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr[-4000:]
        return target

    def run(program: str, *args: object, sanitizer: str = "", limit: float = 150) -> str:
        command = [build(program, sanitizer), *map(str, args)]
        done = subprocess.run(command, env=os.environ | QUIET, capture_output=True, text=True, timeout=limit)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-4000:]
        return done.stdout

    return run
