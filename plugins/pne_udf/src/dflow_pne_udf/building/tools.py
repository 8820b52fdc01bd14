"""Finds the tools a build needs: CMake, make, a C++ compiler."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from dflow_core.errors import CompileError
from dflow_pne_udf import sdk_dir
from dflow_pne_udf.building.process import read_tool

_OLDEST_CMAKE = (3, 20)
_FLAGS = (
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CMAKE_PREFIX_PATH",
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler.

    Args:
        resource_type: What it compiles for.
        path: Where it is.
        version: What it says of itself.
    """

    resource_type: str
    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Tools:
    """What builds a project.

    Args:
        compilers: A compiler for each resource type; this machine's first.
        flags: Environment variables that compilers heed.
    """

    compilers: tuple[Compiler, ...]
    flags: Mapping[str, str]

    @classmethod
    def find(cls, toolchains: Mapping[str, str]) -> Tools:
        """The compilers for this machine and for what a toolchain file names.

        Raises:
            CompileError: a compiler is missing or does not run.
        """
        own = sdk_dir.resource_type()
        wanted = {own: toolchains.get(own, "")} | dict(toolchains)
        compilers = tuple(_compiler(kind, path) for kind, path in wanted.items())
        return cls(compilers, {name: os.environ[name] for name in _FLAGS if os.environ.get(name)})


def find_cmake(wanted: str = "") -> str:
    """CMake: the one wanted, else the one on the path, else the one of the PyPI package `cmake`.

    Raises:
        CompileError: there is none, or it is too old.
    """
    found = shutil.which(wanted or "cmake") or ("" if wanted else _packaged_cmake())
    if not found:
        raise CompileError(
            f"{wanted or 'cmake'} is not there; C++ functions are built with CMake",
            hint="pip install cmake, or install it with the system's packages",
        )
    text = _version(found, os.stat(found).st_mtime_ns)
    number = re.search(r"cmake version (\d+)\.(\d+)", text)
    if number is None or (int(number[1]), int(number[2])) < _OLDEST_CMAKE:
        raise CompileError(
            f"{found} is {text or 'no CMake'}; expected cmake {'.'.join(map(str, _OLDEST_CMAKE))} or newer",
            hint="pip install cmake",
        )
    return found


def find_make() -> str:
    """The make that CMake's makefiles are for.

    Raises:
        CompileError: there is none.
    """
    found = shutil.which("make") or shutil.which("gmake")
    if found is None:
        raise CompileError("make is not there; C++ functions are built with it", hint=_INSTALL)
    return found


_INSTALL = "install it (Debian, Ubuntu: apt-get install build-essential)"


def _compiler(resource_type: str, wanted: str) -> Compiler:
    name = wanted or "g++"
    path = shutil.which(os.path.expanduser(name))
    if path is None:
        hint = "correct the toolchain file" if wanted else _INSTALL
        raise CompileError(f"the C++ compiler for {resource_type}, {name}, is not there or cannot be run", hint=hint)
    version = _version(path, os.stat(path).st_mtime_ns)
    if not version:
        raise CompileError(f"the C++ compiler for {resource_type}, {path}, does not answer to --version")
    return Compiler(resource_type, path, version)


@functools.lru_cache(maxsize=64)
def _version(path: str, _changed: int) -> str:
    """The first line a tool prints about itself; asked again when its file has changed."""
    return (read_tool([path, "--version"]) or "").partition("\n")[0].strip()


def _packaged_cmake() -> str:
    spec = importlib.util.find_spec("cmake")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = os.path.join(folder, "data", "bin", "cmake")
        if os.access(path, os.X_OK):
            return path
    return ""
