"""Graphs by name: a graph file, a compiled .om file, or `module:graph`."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from dflow_core.cli.command import Refused
from dflow_core.graph import FlowData, FlowGraph, ModelProcessPoint, load_graph
from dflow_core.model import inspect_om
from dflow_core.options import nearest

if TYPE_CHECKING:
    from dflow_core.plugins import PluginRegistry

FORMS = "give a graph file, a compiled .om file, or module:graph (also path/to/file.py:graph)"


def load_target(text: str, registry: PluginRegistry) -> FlowGraph:
    """The graph that a command line names.

    Args:
        text: A file that `graph.save` wrote, an `.om` file, or `module:name`, where the name is a graph or a function
            that returns one.
        registry: Plugins, for kinds of process points that files may hold.

    Raises:
        Refused: there is no such file, module or name, or it is no graph.
        ModelFormatError: a file is not what it says.
    """
    module, colon, name = text.rpartition(":")
    if colon and not Path(text).exists():
        with contextlib.redirect_stdout(sys.stderr):  # what a module prints is no part of the command's answer
            return _from_module(module, name)
    path = Path(text)
    if not path.is_file():
        raise Refused(f"{text}: no such file", FORMS)
    if path.suffix == ".om":
        return _from_om(path)
    if path.suffix == ".py":
        raise Refused(f"{text}: which graph in it?", f"write {text}:name")
    return load_graph(path, registry.point_kinds)


def _from_module(module: str, name: str) -> FlowGraph:
    file, (folder, module) = module, _place(module)
    # The command is a script in some bin folder, so Python does not look for modules where the user is.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and module.split(".")[0] == error.name.split(".")[0]:
            raise Refused(f"no module {module!r} in {folder} or among the installed ones", FORMS) from error
        raise Refused(f"module {module!r} needs {error.name!r}, which is not installed") from error
    _check_place(loaded, file)
    found: object = loaded
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refused(f"module {module!r} has no {name!r}", nearest(name, _may_be_graphs(loaded)))
        found = getattr(found, part)
    made = found() if callable(found) and not isinstance(found, FlowGraph) else found
    if not isinstance(made, FlowGraph):
        what = "returns" if callable(found) else "is"
        raise Refused(f"{module}:{name} {what} a {type(made).__name__}, not a FlowGraph", FORMS)
    return made


def _check_place(loaded: ModuleType, file: str) -> None:
    """Refuse a module that is not the file that was asked for, because another one of its name was there first."""
    place = getattr(loaded, "__file__", None)
    if file.endswith(".py") and (place is None or not os.path.exists(place) or not os.path.samefile(place, file)):
        text = f"{file}: another module is called {loaded.__name__!r}: {place or 'a part of Python'}"
        raise Refused(text, "give the file another name")


def _may_be_graphs(loaded: ModuleType) -> list[str]:
    """Names of graphs, and of what the module itself defines that may return one."""
    return [
        name for name, value in vars(loaded).items()
        if isinstance(value, FlowGraph) or (callable(value) and getattr(value, "__module__", "") == loaded.__name__)
    ]


def _place(module: str) -> tuple[str, str]:
    """The folder a module is looked for in first, and its name."""
    if not module.endswith(".py"):
        return os.getcwd(), module
    path = Path(module)
    if not path.is_file():
        raise Refused(f"{module}: no such file", FORMS)
    return str(path.parent.resolve()), path.stem


def _from_om(path: Path) -> FlowGraph:
    """A graph of one node that is the compiled graph; its inputs keep their names."""
    relation = inspect_om(path).model.relation
    point = ModelProcessPoint(path)
    node = point.fnode(len(relation.input_names), len(relation.output_names), name=path.stem)
    outputs = node(*(FlowData(name) for name in relation.input_names))
    made = [] if outputs is None else [outputs] if not isinstance(outputs, tuple) else list(outputs)
    return FlowGraph(made, name=path.stem)

