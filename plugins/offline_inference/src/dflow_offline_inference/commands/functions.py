"""Functions that a command line names: `module:function`, also `path/to/file.py:function`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from dflow_core.cli.command import Refused

Function: TypeAlias = Callable[[object], object]


def load_function(option: str, text: str) -> Function | None:
    """The function an option names; None for "".

    Raises:
        Refused: there is none.
    """
    if not text:
        return None
    module, colon, name = text.rpartition(":")
    if not colon:
        raise Refused(f"{option} {text}: expected module:function or path/to/file.py:function")
    folder = os.getcwd()
    if module.endswith(".py"):
        if not Path(module).is_file():
            raise Refused(f"{option} {text}: no file {module}")
        folder, module = str(Path(module).parent.resolve()), Path(module).stem
    if folder not in sys.path:  # the command is a script in some bin folder
        sys.path.insert(0, folder)
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise Refused(f"{option} {text}: no module {error.name!r}") from error
    except AttributeError:
        raise Refused(f"{option} {text}: module {module!r} has no {name!r}") from None
    if not callable(found):
        raise Refused(f"{option} {text}: it is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]
