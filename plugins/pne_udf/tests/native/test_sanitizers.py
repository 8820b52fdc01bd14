"""The runtime and the users' functions under sanitizers, over the transport in plain memory: `stress.cc`."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dflow_core.spi import include_dir
from dflow_pne_udf import sdk_dir

HERE = Path(__file__).resolve().parent
CPP = HERE.parent.parent / "src" / "cpp"
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_stress(tmp_path: Path, sanitizer: str) -> None:
    sdk = sdk_dir.root() / "include"
    includes = [f"-I{folder}" for folder in (CPP, sdk, sdk / "flow_func", include_dir())]
    flags = ["-std=c++17", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-omit-frame-pointer", *WARNINGS, *includes]
    sources = [*CPP.glob("*.cc"), HERE / "heap_transport.cc", HERE / "stress.cc", *HERE.glob("udfs/*.cc")]

    def compiled(source: Path) -> str:
        target = str(tmp_path / f"{source.stem}.o")
        subprocess.run(["g++", *flags, "-c", str(source), "-o", target], check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, sources))
    program = tmp_path / "stress"
    link = ["g++", f"-fsanitize={sanitizer}", "-rdynamic", *objects, "-ldl", "-pthread", "-o", str(program)]
    subprocess.run(link, check=True)
    settings = {"UBSAN_OPTIONS": "halt_on_error=1", "TSAN_OPTIONS": "halt_on_error=1", "PATH": os.defpath}
    done = subprocess.run([str(program), "300"], capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.endswith("all transactions ended, no block is left\n")
