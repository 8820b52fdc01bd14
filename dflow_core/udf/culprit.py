"""Finds what in a web of objects cannot be pickled, and the path that leads to it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType

from dflow_core.udf.introspection import closure_of, state_of, used_globals
from dflow_core.udf.pickling import by_value_modules, dumps_registered, travels_by_value

_MAX_TRIES = 5000
_MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Culprit:
    """What cannot be pickled.

    Args:
        path: How to get there, such as `Detector.model._lock`.
        value: The object.
        error: What pickling it raised.
    """

    path: str
    value: object
    error: Exception


def find_culprit(roots: Iterable[tuple[str, object]]) -> Culprit | None:
    """The deepest object that cannot be pickled although everything in it can.

    Args:
        roots: Where to look, each with what its path begins with.
    """
    with by_value_modules():
        search = _Search()
        for name, root in roots:
            error = search.failure(root)
            if error is not None:
                return search.descend(root, name, error, 0)
    return None


class _Search:
    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._kept: list[object] = []  # ids stay unique as long as the objects live
        self._tries = 0

    def failure(self, obj: object) -> Exception | None:
        """What pickling raises, or None if it works."""
        self._tries += 1
        try:
            dumps_registered(obj, io.BytesIO())
        except Exception as error:  # any class may raise anything while it is pickled
            return error
        return None

    def descend(self, obj: object, path: str, error: Exception, depth: int) -> Culprit:
        """Follow the first part that fails, down to one whose parts all work."""
        for label, part in _parts(obj):
            if id(part) in self._seen or self._tries > _MAX_TRIES or depth > _MAX_DEPTH:
                continue
            self._seen.add(id(part))
            self._kept.append(part)
            inner = self.failure(part)
            if inner is not None:
                return self.descend(part, path + label, inner, depth + 1)
        return Culprit(path, obj, error)


def _parts(obj: object) -> Iterator[tuple[str, object]]:
    """What an object is pickled with, each with what leads to it."""
    if isinstance(obj, FunctionType):
        yield from _function_parts(obj)
    elif isinstance(obj, type):
        for name, value in list(vars(obj).items()):
            if name not in ("__dict__", "__weakref__", "__doc__", "__module__"):
                yield f".{name}", value
    elif isinstance(obj, MethodType):
        yield "", obj.__self__
        yield "", obj.__func__
    elif isinstance(obj, (staticmethod, classmethod)):
        yield "", obj.__func__
    elif isinstance(obj, property):
        yield from (("", part) for part in (obj.fget, obj.fset, obj.fdel) if part is not None)
    elif isinstance(obj, partial):
        yield "", obj.func
        yield from ((f"(argument {i})", value) for i, value in enumerate(obj.args))
        yield from ((f"({name}=)", value) for name, value in obj.keywords.items())
    elif isinstance(obj, ModuleType):
        if travels_by_value(obj):
            yield from ((f".{name}", value) for name, value in list(vars(obj).items()) if not name.startswith("__"))
    else:
        yield from _content(obj)
        yield from ((f".{name}", value) for name, value in state_of(obj).items())


def _function_parts(function: FunctionType) -> Iterator[tuple[str, object]]:
    code = function.__code__
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    yield from ((f".{name}", value) for name, value in zip(names, defaults))
    yield from ((f".{name}", value) for name, value in (function.__kwdefaults__ or {}).items())
    yield from ((f".{name}", value) for name, value in closure_of(function).items())
    yield from ((f".{name}", value) for name, value in used_globals(function).items())
    yield from ((f".{name}", value) for name, value in vars(function).items())


def _content(obj: object) -> Iterator[tuple[str, object]]:
    if isinstance(obj, Mapping):
        for key, value in list(obj.items()):
            yield f"[{key!r}]", key
            yield f"[{key!r}]", value
    elif isinstance(obj, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(obj))
    elif isinstance(obj, Set):
        yield from (("{}", value) for value in obj)
