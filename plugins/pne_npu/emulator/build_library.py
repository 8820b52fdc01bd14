"""Builds libascendcl.so with the C++ compiler alone; CMakeLists.txt builds the same."""

from __future__ import annotations

import os
import shutil
import subprocess  # noqa: TID251 -- it runs the compiler, when the package is built
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ("acl_rt", "acl_mdl", "acl_tdt_queue", "acl_tdt_channel", "acl_op_executor", "acl_op_compiler", "acl_cblas")
FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-pthread")


def build(target: Path, flags: Sequence[str] = ("-O1",), jobs: int = 2) -> Path:
    """Compile and link the emulator.

    Args:
        target: The library to make, such as `lib64/libascendcl.so`; the other names the vendor's libraries have
            become links beside it.
        flags: More flags for compiling and linking, such as those of a sanitizer.
        jobs: Compilers at a time.

    Raises:
        RuntimeError: there is no compiler, or it refused; with its text.
    """
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if compiler is None:
        raise RuntimeError("the ACL emulator needs a C++17 compiler; install one (apt-get install g++)")
    target.parent.mkdir(parents=True, exist_ok=True)
    sources = sorted((HERE / "cpp").glob("*.cc"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        objects = [str(Path(folder, source.with_suffix(".o").name)) for source in sources]
        compile_one = [compiler, *FLAGS, *flags, "-I", str(HERE / "src/dflow_acl_emulator/home/include"), "-c"]
        list(pool.map(lambda pair: _run([*compile_one, str(pair[0]), "-o", pair[1]]), zip(sources, objects)))
        made = Path(folder, target.name)
        _run([compiler, "-shared", "-pthread", *flags, *objects, "-Wl,-soname,libascendcl.so", "-ldl", "-o", str(made)])
        shutil.move(str(made), target)
    link_names(target)
    return target


def link_names(library: Path) -> None:
    """Make the other names of the vendor's libraries lead to this one."""
    for name in NAMES:
        link = library.parent / f"lib{name}.so"
        link.unlink(missing_ok=True)
        link.symlink_to(library.name)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    build(Path(sys.argv[1]), sys.argv[2:] or ("-O1",))
