"""Builds the compiled module: the declarations are those of `fault.h` and `dshm.h`, the code is that beside them."""

from __future__ import annotations

import re
from pathlib import Path

from cffi import FFI

# setuptools wants paths relative to the folder of setup.py, which is where it runs this file.
_C = Path("src/c")


def _declarations() -> str:
    text = "".join((_C / name).read_text(encoding="utf-8") for name in ("fault.h", "dshm.h"))
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


ffi = FFI()
ffi.cdef(_declarations())
ffi.set_source(
    "dflow_transport_shm._native",
    '#include "fault.h"\n#include "dshm.h"',
    sources=[str(path) for path in sorted(_C.glob("*.c"))],
    depends=[str(path) for path in sorted(_C.rglob("*.h"))],
    include_dirs=[str(_C)],
    define_macros=[("_GNU_SOURCE", None)],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"],
    extra_link_args=["-pthread"],
)
