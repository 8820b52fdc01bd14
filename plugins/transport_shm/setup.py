"""What pyproject.toml cannot say: the module cffi builds, and the extension module, which needs numpy's headers."""

from pathlib import Path

import numpy
from setuptools import Extension, setup

_EXT = Path("src/ext")

setup(
    cffi_modules=["src/dflow_transport_shm/bindings/build.py:ffi"],
    ext_modules=[
        Extension(
            "dflow_transport_shm._fast",
            sources=[str(path) for path in sorted(_EXT.glob("*.c"))],
            depends=[str(path) for path in (*sorted(_EXT.glob("*.h")), "src/c/calls.h", "src/c/dshm.h")],
            include_dirs=["src/c", "src/ext", numpy.get_include()],
            define_macros=[("_GNU_SOURCE", None)],
            extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
                                "-Wno-cast-function-type"],
        )
    ],
)
