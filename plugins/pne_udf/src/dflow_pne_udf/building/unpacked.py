"""Where files of packages lie once they are unpacked. Imports little: executors of C++ functions look here first."""

from __future__ import annotations

import hashlib
import os

LIBRARY = ".dflow-library"
"""Link beside the files of a package that leads to its library."""


def unpacked_folder(package: bytes, resource_type: str, store: str) -> str:
    """The folder for the files of a package; named by content."""
    digest = hashlib.sha256(package).hexdigest()[:32]
    return os.path.join(store, "unpacked", f"{digest}-{resource_type}")


def unpacked_library(folder: str) -> str | None:
    """The library of an unpacked package, or None if it is not unpacked."""
    try:
        return os.path.join(folder, os.readlink(os.path.join(folder, LIBRARY)))
    except OSError:
        return None
