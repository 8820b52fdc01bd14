"""The C code under sanitizers; see `native/`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parent / "native"


def build(program: str, sanitizer: str, out: Path) -> Path:
    """A program of `native/` with that sanitizer, or skip if the compiler has none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler or not shutil.which("make"):
        pytest.skip("no C compiler or no make")
    probe = [compiler, f"-fsanitize={sanitizer}", "-x", "c", "-", "-o", str(out / "probe")]
    nothing = "int main(void) { return 0; }\n"
    probed = subprocess.run(probe, input=nothing, capture_output=True, text=True, timeout=30)
    if probed.returncode or subprocess.run([out / "probe"], capture_output=True, timeout=30).returncode:
        pytest.skip(f"the compiler has no -fsanitize={sanitizer} that works here")
    make = ["make", "-s", "-C", str(NATIVE), f"SAN={sanitizer}", f"OUT={out}", f"CC={compiler}", str(out / program)]
    subprocess.run(make, check=True, capture_output=True, text=True, timeout=60)
    return out / program


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("sanitizer", "how", "rounds"),
    [("address,undefined", "threads", 800), ("address,undefined", "processes", 800), ("thread", "threads", 600)],
)
def test_stress_is_clean_under_sanitizers(tmp_path: Path, sanitizer: str, how: str, rounds: int) -> None:
    stress = build("stress", sanitizer, tmp_path)
    env = os.environ | {"TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=1"}
    done = subprocess.run([stress, how, str(rounds)], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "fine\n"


@pytest.mark.timeout(120)
def test_shortage_of_memory_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    """BC-009: no pages for a block; never SIGBUS."""
    shortage = build("shortage", "address,undefined", tmp_path)
    done = subprocess.run([shortage], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-4000:]
