"""What a built library is.

Which functions it registers is asked in a process of its own: loading it runs its code.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

from dflow_core.errors import PluginError
from dflow_pne_udf import sdk_dir
from dflow_pne_udf.building.process import read_tool
from dflow_pne_udf.native import seam

_ASK = """
import ctypes, json, os, sys
runtime, library = sys.argv[1:]
out = os.dup(1)
os.dup2(2, 1)
api = ctypes.CDLL(runtime, os.RTLD_NOW | os.RTLD_GLOBAL)
api.dflow_udf_last_error.restype = ctypes.c_char_p
api.dflow_udf_functions.restype = ctypes.c_int64
api.dflow_udf_functions.argtypes = ctypes.c_char_p, ctypes.c_uint64
if api.dflow_udf_load(os.fsencode(library)):
    found = {"error": api.dflow_udf_last_error().decode("utf-8", "replace")}
else:
    size = api.dflow_udf_functions(None, 0)
    text = ctypes.create_string_buffer(size)
    api.dflow_udf_functions(text, size)
    found = {"functions": text.value.decode("utf-8", "replace").splitlines()}
os.write(out, json.dumps(found).encode())
os._exit(0)
"""
_MOST = 30.0


def registered_functions(library: Path, limit: float) -> tuple[list[str] | None, str]:
    """The functions a library registers, as `kind name` lines, or None and why it could not be asked.

    Args:
        library: The library.
        limit: Seconds it may take to load.
    """
    try:
        runtime = sdk_dir.library()
    except PluginError as error:
        return None, error.message
    text = read_tool([sys.executable, "-I", "-S", "-c", _ASK, str(runtime), str(library)], min(limit, _MOST))
    if text is None:
        return None, f"{library.name} crashed, or hung for {min(limit, _MOST):g} s, while it was loaded"
    found = json.loads(text)
    # Where it was built says nothing about it, and would make equal builds differ.
    return found.get("functions"), str(found.get("error", "")).replace(str(library), library.name)


def needed_libraries(library: Path) -> list[str]:
    """What the loader says it needs, a line each; `not found` or `undefined symbol` where something is missing."""
    # Functions need not be linked with libflow_func.so: their executor has loaded it before them.
    environment = os.environ | {"LD_PRELOAD": str(sdk_dir.library())}
    told = read_tool(["ldd", "-r", str(library)], environment=environment)
    return [] if told is None else [" ".join(line.split()) for line in told.splitlines()]


def sdk_versions(library: Path) -> tuple[list[str], str]:
    """The versions of the SDK that a library's sources were built with, and the one that is here.

    Sources of one library may differ: then these are the lowest and the highest. A library built with other headers,
    such as CANN's, does not say: then there is none. The library is read, not loaded.
    """
    found = (ctypes.c_uint32 * 3)()
    seam.runtime().dflow_udf_sdk_versions(os.fsencode(library), found)
    lowest, highest, own = (f"{version >> 16}.{version & 0xFFFF}" if version else "" for version in found)
    return [version for version in dict.fromkeys((lowest, highest)) if version], own


__all__ = ["needed_libraries", "registered_functions", "sdk_versions"]
