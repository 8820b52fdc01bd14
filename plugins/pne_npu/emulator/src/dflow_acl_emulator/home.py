"""The folder that stands in for a CANN installation, and the environment that leads programs to it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

_HOME = Path(__file__).resolve().parent / "home"
_NAMES = ("acl_rt", "acl_mdl", "acl_tdt_queue", "acl_tdt_channel", "acl_op_executor", "acl_op_compiler", "acl_cblas")


class EmulatorMissingError(RuntimeError):
    """The emulator's library was not built, or what it runs models with is not installed."""


def home() -> Path:
    """The emulator's folder, laid out like a CANN installation: `lib64`, `include`, `bin`.

    Raises:
        EmulatorMissingError: its library was not built.
    """
    library = _HOME / "lib64" / "libascendcl.so"
    if not library.exists():
        raise EmulatorMissingError(f"{library} was not built; install dflow-acl-emulator again, with a C++ compiler")
    for name in _NAMES:
        link = library.parent / f"lib{name}.so"
        if not link.exists():
            _try_link(link, library.name)
    return _HOME


def openvino_library() -> Path:
    """OpenVINO's C library, with which the emulator runs models.

    Raises:
        EmulatorMissingError: there is none in this Python environment.
    """
    spec = importlib.util.find_spec("openvino")
    for folder in spec.submodule_search_locations if spec and spec.submodule_search_locations else ():
        for path in sorted(Path(folder, "libs").glob("libopenvino_c.so*")):
            return path
    raise EmulatorMissingError("the ACL emulator runs models with OpenVINO: pip install openvino")


def emulated_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which ACL programs find the emulator first.

    Args:
        base: What it is made from; this process's environment if not given.
    """
    found = dict(os.environ if base is None else base)
    place = home()
    found["ASCEND_HOME_PATH"] = found["ASCEND_TOOLKIT_HOME"] = str(place)
    found["ACL_EMULATOR_OPENVINO"] = str(openvino_library())
    found["ACL_EMULATOR_PYTHON"] = sys.executable
    for name, folder in (("LD_LIBRARY_PATH", "lib64"), ("PATH", "bin")):
        rest = [part for part in found.get(name, "").split(os.pathsep) if part and part != str(place / folder)]
        found[name] = os.pathsep.join([str(place / folder), *rest])
    return found


def _try_link(link: Path, target: str) -> None:
    """Wheels hold no links; where the folder cannot be written, programs that want the other names fail as told."""
    try:
        link.symlink_to(target)
    except FileExistsError:
        return
    except OSError as error:
        raise EmulatorMissingError(f"{link} cannot be made: {error.strerror}") from error
