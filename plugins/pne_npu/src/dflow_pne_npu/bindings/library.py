"""Finds and opens the library that the user's machine has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cffi

from dflow_core.errors import PluginError
from dflow_pne_npu.bindings.declarations import CORE, OPTIONAL, TYPES
from dflow_pne_npu.installation import Installation

NAMES = ("libascendcl.so", "libacl_rt.so", "libacl_mdl.so")


@dataclass(frozen=True)
class LibrarySearch:
    """Where the library is looked for, in order.

    Args:
        environ: The environment; this process's if not given.
    """

    environ: Mapping[str, str]

    @classmethod
    def here(cls) -> LibrarySearch:
        """A search with this process's environment."""
        return cls(dict(os.environ))

    @cached_property
    def folders(self) -> tuple[Path, ...]:
        """Folders that may hold it."""
        listed = [Path(part) for part in self.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if part]
        return tuple(dict.fromkeys([*Installation.of(self.environ).library_folders, *listed]))

    def path(self) -> str:
        """The library's path, or its bare name where only the loader can find it."""
        for folder in self.folders:
            if (folder / NAMES[0]).exists():
                return str(folder / NAMES[0])
        return NAMES[0]


def make_ffi() -> Any:
    """A cffi object with the declarations."""
    ffi = cffi.FFI()
    ffi.cdef(TYPES + CORE + OPTIONAL)
    return ffi


def open_library(search: LibrarySearch | None = None) -> tuple[Any, Any]:
    """The cffi object and the library.

    Raises:
        PluginError: there is no library, or it lacks what is needed; names what was looked for and where.
    """
    search = search or LibrarySearch.here()
    fault = Installation.of(search.environ).fault
    if fault:
        raise PluginError(fault, hint="set it to the folder of the CANN toolkit, or unset it")
    ffi = make_ffi()
    path = search.path()
    try:
        library = ffi.dlopen(path)
    except OSError as cause:
        places = ", ".join(map(str, search.folders)) or "no folder"
        raise PluginError(
            f"{NAMES[0]} was not found or cannot be loaded ({_first(cause)}); looked in {places} and by the loader",
            hint="install CANN and source its set_env.sh, or run under `dflow npu emulate -- COMMAND`",
        ) from None
    missing = [name for name in function_names(CORE) if not has(library, name)]
    if missing:
        raise PluginError(f"{path} has no {', '.join(missing[:5])}: it is of a CANN version that is too old, or a stub",
                          hint="install CANN 7 or newer")
    return ffi, library


def _first(cause: OSError) -> str:
    """What the loader said, without what cffi adds."""
    return str(cause).partition(".  Additionally")[0].rpartition(": ")[2] or str(cause)


def function_names(declarations: str) -> list[str]:
    """Names of the functions that C declarations declare."""
    return [line.partition("(")[0].replace("*", " ").split()[-1] for line in declarations.splitlines() if "(" in line]


def has(library: Any, name: str) -> bool:
    """Whether a library exports a function."""
    try:
        getattr(library, name)
    except AttributeError:
        return False
    return True
