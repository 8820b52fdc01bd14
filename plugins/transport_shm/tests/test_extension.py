"""The extension module under address and undefined-behaviour sanitizers: the contract once more, in such a process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import dflow_transport_shm

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "src"
PACKAGE = Path(dflow_transport_shm.__file__).parent
FLAGS = ["-std=c11", "-O1", "-g", "-shared", "-fPIC", "-D_GNU_SOURCE", "-fsanitize=address,undefined"]
PARTS = "TestBlocks or TestQueues or TestPlain or TestPolic"


def runtime(compiler: str, name: str) -> str:
    """Path of a sanitizer's runtime, which has to be loaded before Python."""
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, timeout=30).stdout
    if not os.path.isabs(found.strip()):
        pytest.skip(f"the compiler has no {name}")
    return found.strip()


def sanitized(compiler: str, folder: Path) -> Path:
    """The package with an extension module that is watched."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("_fast.*", "__pycache__"))
    target = folder / PACKAGE.name / f"_fast{sysconfig.get_config_var('EXT_SUFFIX')}"
    headers = [sysconfig.get_paths()["include"], np.get_include(), SOURCES / "c", SOURCES / "ext"]
    files = [str(file) for file in sorted((SOURCES / "ext").glob("*.c"))]
    command = [compiler, *FLAGS, "-fno-sanitize-recover=all", *(f"-I{header}" for header in headers), *files]
    done = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True, timeout=60)
    if "No such file" in done.stderr and "Python.h" in done.stderr:
        pytest.skip("no headers of Python here")
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.timeout(180)
def test_contract_holds_under_sanitizers(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("no gcc")
    preload = ":".join(runtime(compiler, name) for name in ("libasan.so", "libubsan.so"))
    module = sanitized(compiler, tmp_path)
    env = os.environ | {
        "LD_PRELOAD": preload,
        "ASAN_OPTIONS": "detect_leaks=0",  # of Python itself there are many
        "PYTHONMALLOC": "malloc",  # or small objects would lie in pools that nobody watches
        "PYTHONPATH": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    check = f"import dflow_transport_shm._fast as f; assert f.__file__ == {str(module)!r}, f.__file__"
    subprocess.run([sys.executable, "-c", check], env=env, check=True, timeout=60)
    root = HERE.parents[2]
    pytest_there = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--config-file", str(root / "pyproject.toml")]
    tests = ["--rootdir", str(root), "-k", PARTS, str(HERE / "test_contract.py")]
    done = subprocess.run(
        [sys.executable, *pytest_there, *tests], env=env, cwd=root, capture_output=True, text=True, timeout=150
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert " passed" in done.stdout
