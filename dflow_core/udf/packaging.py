"""User code as bytes that another interpreter can run.

    `dflow-code 1 <implementation> <version> <code|plain>\\n` | pickle

What a fresh interpreter can import travels as a reference, everything else by value: functions of `__main__` and of
notebooks, lambdas, closures, nested classes, and modules that lie next to the script. `code` in the first line says
that code travels by value; byte code fits one version of Python only, so another version is refused with a clear text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dflow_core.errors import PackagingError
from dflow_core.message import TypeCodec
from dflow_core.udf.culprit import Culprit, find_culprit
from dflow_core.udf.pickling import dumps, loads

TARGET_ATTRIBUTE = "__dflow_target__"
"""Where a decorated object keeps what was decorated."""

_MAGIC = "dflow-code 1"
_MAX_LINE = 128


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """How one function of a package is called.

    Args:
        name: Name of the function or method.
        num_returns: Values it gives.
        choice_output: Says for each value whether it is sent; None sends all.
        gather: Whether it is called once per transaction with all parts.
        generator: Whether one call may give several sets of values.
    """

    name: str
    num_returns: int = 1
    choice_output: Callable[[object], object] | None = None
    gather: bool = False
    generator: bool = False


@dataclass(frozen=True, slots=True)
class PythonFunc:
    """What travels: user code and how to call it.

    Args:
        kind: `function` (target is called), `class` (target is made with the init arguments, its methods are called),
            or `flow_func` (target is made without arguments; its methods get a run context and messages).
        target: The function or class.
        init_args, init_kwargs: Arguments of the class.
        methods: Its functions, in the order of the node's FuncSpecs.
        types: Types of messages that were registered when it was packed.
    """

    kind: str
    target: object
    init_args: tuple[object, ...] = ()
    init_kwargs: Mapping[str, object] = field(default_factory=dict)
    methods: tuple[MethodSpec, ...] = ()
    types: tuple[TypeCodec, ...] = ()


def pack(obj: object, what: str = "") -> bytes:
    """An object and the code it needs, as bytes. Thread-safe.

    Args:
        obj: A PythonFunc, or anything else that has to travel.
        what: What it is, for errors; without it the name of the object.

    Raises:
        PackagingError: something in it cannot travel; names it by the path that leads to it.
    """
    stream = io.BytesIO()
    try:
        has_code = dumps(obj, stream)
    except Exception as error:
        raise _explained(obj, what, error) from error
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    line = f"{_MAGIC} {sys.implementation.name} {version} {'code' if has_code else 'plain'}\n"
    return line.encode() + stream.getvalue()


def unpack(data: bytes) -> object:
    """The inverse of `pack`. Runs code: only for packages of your own graphs.

    Raises:
        PackagingError: the bytes are no package, were made by another version of Python, or need a module that is not
            there.
    """
    line = data[:_MAX_LINE].partition(b"\n")[0]
    words = line.decode(errors="replace").rsplit(" ", 3)
    if len(words) != 4 or words[0] != _MAGIC:
        raise PackagingError(f"expected packed user code, got bytes that begin with {data[:16]!r}")
    _check_version(*words[1:])
    try:
        found = loads(data[len(line) + 1:])
    except ImportError as error:
        hint = "install it where the node runs, or put the code next to your script"
        raise PackagingError(f"the packed code needs a module that is not here: {error}", hint=hint) from error
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        hint = "the versions of the packages here and where the graph was built may differ"
        raise PackagingError(f"packed user code cannot be read: {type(error).__name__}: {error}", hint=hint) from error
    if isinstance(found, PythonFunc):
        return dataclasses.replace(found, target=getattr(found.target, TARGET_ATTRIBUTE, found.target))
    return found


def _check_version(implementation: str, version: str, content: str) -> None:
    here = (sys.implementation.name, f"{sys.version_info.major}.{sys.version_info.minor}")
    if content != "plain" and (implementation, version) != here:
        raise PackagingError(
            f"the code was packed by {implementation} {version}, this is {' '.join(here)}, which reads other byte code",
            hint=f"let env= name an interpreter of version {version}, or install the code as a package there",
        )


def _explained(obj: object, what: str, error: Exception) -> PackagingError:
    root = getattr(obj.target, TARGET_ATTRIBUTE, obj.target) if isinstance(obj, PythonFunc) else obj
    name = what or str(getattr(root, "__qualname__", type(root).__name__))
    culprit = find_culprit(_roots(obj, root, name)) or Culprit(name, root, error)
    kind = type(culprit.value)
    kind_name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return PackagingError(
        f"{culprit.path} is of type {kind_name} and cannot travel to another process: {culprit.error}",
        hint="create it in the executor: in __init__ of a @pyflow class, or inside the function",
    )


def _roots(obj: object, root: object, name: str) -> Iterator[tuple[str, object]]:
    """Where to look for what cannot travel, named as the user knows it."""
    yield name, root
    if not isinstance(obj, PythonFunc):
        return
    names: list[str] = []
    with contextlib.suppress(TypeError, ValueError):
        assert callable(root)
        names = list(inspect.signature(root).parameters)
    for i, value in enumerate(obj.init_args):
        yield f"{name}({names[i] if i < len(names) else i}=...)", value
    for key, value in obj.init_kwargs.items():
        yield f"{name}({key}=...)", value
    for method in obj.methods:
        yield f"{name}.{method.name} choice_output", method.choice_output
