"""What the commands are given: a function project by its JSON file or folder, or a built library."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from dflow_core.cli.command import Refused
from dflow_core.cli.output import Output
from dflow_core.errors import DflowError
from dflow_core.options import resolve
from dflow_pne_udf import sdk_dir
from dflow_pne_udf.building.builder import LIMIT, Builder, check_registered
from dflow_pne_udf.building.probe import registered_functions
from dflow_pne_udf.building.release import Release, open_release, unpack_release
from dflow_pne_udf.config import FuncConfig, read_config

F = TypeVar("F", bound=Callable[..., object])

FORMS = "give the JSON file of a function project, a folder with one, or a built library (.so)"


@dataclass(frozen=True, slots=True)
class Found:
    """A library and what is known of it.

    Args:
        library: Its path.
        registered: Functions it registers, as `kind name`; None where it does not load.
        problem: Why it does not load.
        config: The project it comes from, or None.
        release: What its package says; None for a library without one.
        package: The package; b"" for a library without one.
    """

    library: Path
    registered: tuple[str, ...] | None
    problem: str
    config: FuncConfig | None = None
    release: Release | None = None
    package: bytes = b""


def target(func: F) -> F:
    """Give a command the argument TARGET and the options of a build."""
    decorators = (
        click.argument("target", type=click.Path(path_type=Path)),
        click.option("--cmake", default="", help="CMake to use."),
        click.option("--limit", default=LIMIT, show_default=True, help="Seconds a step of the build may take."),
    )
    return functools.reduce(lambda wrapped, decorator: decorator(wrapped), reversed(decorators), func)


def find(path: Path, output: Output, cmake: str, limit: float) -> Found:
    """The library of a project, built if it has to be, or the library itself.

    Raises:
        Refused: there is nothing of that name.
        CompileError: the project has faults or cannot be built.
    """
    if path.suffix == ".so" and path.is_file():
        registered, problem = registered_functions(path.resolve(), limit)
        return Found(path.resolve(), None if registered is None else tuple(registered), problem)
    config = read_config(str(_config_of(path)))
    if config.is_builtin:
        raise Refused(f"{path}: its functions are ready-made; there is nothing to build")
    return _built(config, output, cmake, limit)


def _built(config: FuncConfig, output: Output, cmake: str, limit: float) -> Found:
    folder = resolve().cache_dir
    if not folder:
        raise Refused("no folder for built functions can be written here", "set DFLOW_CACHE_DIR to one that can")
    store = str(Path(folder) / "udf")
    package = Builder(store, cmake, limit, report=output.line).package(config)
    release = open_release(package)
    check_registered(tuple(f.name for f in config.functions), release, config.path)
    library = unpack_release(package, sdk_dir.resource_type(), store) / config.target_bin
    return Found(library, release.registered, release.problem, config, release, package)


def _config_of(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise Refused(f"{path}: no such file or folder", FORMS)
    found = [file for file in sorted(path.glob("*.json")) if _is_config(file)]
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise Refused(f"{path}: expected one JSON file with a func_list in it, found {names}", FORMS)
    return found[0]


def _is_config(path: Path) -> bool:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "func_list" in content


def check_loads(found: Found) -> None:
    """Raise if a library does not load here.

    Raises:
        DflowError: with the loader's text.
    """
    if found.problem:
        raise DflowError(f"{found.library.name} does not load: {found.problem}", hint="`dflow udf inspect` says more")
