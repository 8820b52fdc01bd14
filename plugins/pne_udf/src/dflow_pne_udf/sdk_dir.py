"""Where the SDK lies: headers, libflow_func.so and the CMake package, in the layout users' CMakeLists look for.

    sdk/include/flow_func/*.h                     sdk/devlib/linux/<machine>/libflow_func.so
    sdk/include/dflow/*.h                         sdk/lib/cmake/dflow_flow_func/*.cmake
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from dflow_core.errors import PluginError

_ROOT = Path(__file__).resolve().parent / "sdk"
_MACHINES: Mapping[str, str] = {"x86_64": "X86", "aarch64": "Aarch"}


def root() -> Path:
    """The folder to set `ASCEND_HOME_PATH` to."""
    return _ROOT


def resource_type() -> str:
    """What this machine is called in toolchain files: `X86` or `Aarch`; its own name for others."""
    machine = platform.machine()
    return _MACHINES.get(machine, machine)


def library() -> Path:
    """The libflow_func.so of this machine.

    Raises:
        PluginError: it was not built with this package.
    """
    path = _ROOT / "devlib" / "linux" / platform.machine() / "libflow_func.so"
    if not path.is_file():
        raise PluginError(
            f"libflow_func.so is missing: expected {path}",
            hint="install dflow-pne-udf from a wheel, or build it on a machine with a C++ compiler",
        )
    return path


@functools.cache
def fingerprint() -> str:
    """Changes whenever code built against the SDK could come out different."""
    digest = hashlib.sha256()
    for path in sorted([*_ROOT.glob("include/**/*.h"), *_ROOT.glob("lib/cmake/**/*.cmake")]):
        digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def variables() -> dict[str, str]:
    """The environment variables a build of user functions needs."""
    return {
        "ASCEND_HOME_PATH": str(_ROOT),
        "dflow_flow_func_DIR": str(_ROOT / "lib" / "cmake" / "dflow_flow_func"),
    }


def build_environment() -> dict[str, str]:
    """This process's environment as a build gets it.

    Variables of an outer `make` are left out: its job server is not ours to use.
    """
    outer = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}
    return {name: value for name, value in os.environ.items() if name not in outer} | variables()
