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
ALONE = "refused.cc"
"""It declares its functions without their arguments, so it may see no header."""
FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-pthread")


def build(target: Path, flags: Sequence[str] = ("-O1",), jobs: int = 2) -> Path:
    """Compile and link the emulator, its sources in as many heaps as there are compilers, which takes half as long.

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
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        heaps = _heaps(Path(folder), jobs)
        objects = [str(heap.with_suffix(".o")) for heap in heaps]
        compile_one = [compiler, *FLAGS, *flags, "-I", str(HERE / "src/dflow_acl_emulator/home/include"), "-c"]
        list(pool.map(lambda pair: _run([*compile_one, str(pair[0]), "-o", pair[1]]), zip(heaps, objects)))
        made = Path(folder, target.name)
        _run([compiler, "-shared", "-pthread", *flags, *objects, "-Wl,-soname,libascendcl.so", "-ldl", "-o", str(made)])
        shutil.move(str(made), target)
    link_names(target)
    return target


def _heaps(folder: Path, count: int) -> list[Path]:
    """Files that each include a part of the sources, the largest source first."""
    sources = sorted((HERE / "cpp").glob("*.cc"), key=lambda path: -path.stat().st_size)
    parts = [[path for path in sources if path.name != ALONE][start::count] for start in range(count)]
    parts.append([HERE / "cpp" / ALONE])
    heaps = [folder / f"heap{number}.cc" for number in range(len(parts))]
    for heap, part in zip(heaps, parts):
        heap.write_text("".join(f'#include "{path}"\n' for path in part))
    return heaps


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
