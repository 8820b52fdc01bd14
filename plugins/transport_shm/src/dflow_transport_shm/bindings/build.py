"""Builds the compiled module: the declarations are those of `dshm.h`, the code is that of the C files beside it."""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

# setuptools wants paths relative to the folder of setup.py, which is where it runs this file.
_C = Path("src/c")
_FILES = ("bell", "block", "buddy", "group", "lock", "queue", "reclaim")


def _declarations() -> str:
    text = (_C / "dshm.h").read_text(encoding="utf-8")
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


ffi = FFI()
ffi.cdef(_declarations())
ffi.set_source(
    "dflow_transport_shm._native",
    '#include "dshm.h"',
    sources=[str(_C / f"{name}.c") for name in _FILES],
    depends=[str(path) for path in sorted(_C.glob("*.h"))],
    include_dirs=[str(_C)],
    define_macros=[("_GNU_SOURCE", None)],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
    extra_link_args=["-pthread"],
)
