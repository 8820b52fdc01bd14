"""The library under sanitizers, built anew without optimisation: about 25 s of a CPU for each of the two builds.

Address and undefined behaviour are checked always, threads by command (`-m slow`) only.
Models are left out: OpenVINO opens a library with RTLD_DEEPBIND, which sanitizers refuse.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parent
AREAS = {
    "devices": {"ACL_EMULATOR_DEVICES": "2"},
    "streams": {"ACL_EMULATOR_FAULTS": "task:memset#1 slow=100"},
    "callbacks": {},
    "memory": {"ACL_EMULATOR_MEMORY": str(1 << 20)},
    "tensors": {},
    "others": {},
    "queues": {},
    "buffers": {"ACL_EMULATOR_RUN_MODE": "device"},
}
FLAGS = {"address": "address,undefined", "thread": "thread"}
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1", "TSAN_OPTIONS": "exitcode=66"}


def builder() -> ModuleType:
    """The module that builds the library."""
    spec = importlib.util.spec_from_file_location("build_library", HERE.parent / "build_library.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(command: list[str], library: Path, flag: str, folder: Path) -> Path:
    """A test program that uses a library, built with the same sanitizer."""
    target = folder / "program"
    words = ["-D_GNU_SOURCE", "-g1", flag, f"-I{HERE.parent / 'src/dflow_acl_emulator/home/include'}"]
    rest = [f"-L{library.parent}", "-lascendcl", "-pthread", "-o", str(target)]
    subprocess.run([*command, *words, *rest], check=True, capture_output=True)
    return target


@pytest.fixture(scope="module", params=["address", pytest.param("thread", marks=pytest.mark.slow)])
def sanitized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A library built with a sanitizer, and the compiler's flag for it."""
    flag = f"-fsanitize={FLAGS[request.param]}"
    target = tmp_path_factory.mktemp(request.param) / "libascendcl.so"
    builder().build(target, ("-O0", "-g1", flag))
    return target, flag


@pytest.mark.timeout(300)
@pytest.mark.parametrize("area", AREAS)
def test_an_area_is_clean(
    sanitized: tuple[Path, str], area: str, environment: Mapping[str, str], tmp_path: Path,
    compiler_and_source: Callable[[str], list[str]],
) -> None:
    library, flag = sanitized
    program = compiled(compiler_and_source(area), library, flag, tmp_path)
    found = {**environment, **AREAS[area], **OPTIONS, "LD_LIBRARY_PATH": str(library.parent)}
    done = subprocess.run([str(program)], env=found, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
