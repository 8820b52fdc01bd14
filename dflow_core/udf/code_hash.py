"""A hash of code and data that is the same in every process.

Pickles are not: a class that travels by value gets a random id in each process, and sets change their order. Caches use
this hash instead. Places in files (line numbers, paths) do not count; what is imported by reference counts by its name.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING

import numpy as np

from dflow_core.udf.importable import ImportPath, is_importable
from dflow_core.udf.introspection import closure_of, used_globals

if TYPE_CHECKING:
    from hashlib import _Hash

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
_NOT_OF_THE_CLASS = frozenset({
    "__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__", "_abc_impl",
    "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__",
})


def fingerprint(obj: object) -> str:
    """Text that differs whenever an object, or the code it needs, does something else.

    Args:
        obj: A function, class or object, also one that travels by value.
    """
    hasher = _Hasher()
    hasher.add(obj)
    return hasher.digest()


class _Hasher:
    """Walks through an object; what comes a second time counts by the number it got at first."""

    def __init__(self) -> None:
        self._hash: _Hash = hashlib.sha256()
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        self._path = ImportPath()

    def digest(self) -> str:
        """The hash of everything added."""
        return self._hash.hexdigest()

    def add(self, obj: object) -> None:
        """Take in an object."""
        if isinstance(obj, _PLAIN) and type(obj) in _PLAIN:
            return self._text(type(obj).__name__, repr(obj))
        number = self._numbers.setdefault(id(obj), len(self._numbers))
        if number < len(self._kept):
            return self._text("again", str(number))
        self._kept.append(obj)
        self._text("object", type(obj).__name__)
        self._add_new(obj)

    def _text(self, *words: str) -> None:
        for word in words:
            data = word.encode(errors="surrogatepass")
            self._hash.update(struct.pack("<I", len(data)) + data)

    def _add_new(self, obj: object) -> None:
        if isinstance(obj, (FunctionType, type)) and self._is_reference(obj):
            self._text("reference", str(obj.__module__), obj.__qualname__)
        elif isinstance(obj, FunctionType):
            self._all(_function_parts(obj))
        elif isinstance(obj, type):
            self._all(_class_parts(obj))
        elif isinstance(obj, CodeType):
            self._all(_code_parts(obj))
        elif isinstance(obj, ModuleType):
            self._module(obj)
        elif isinstance(obj, (BuiltinFunctionType, MethodType)):
            self._text(getattr(obj, "__qualname__", obj.__name__))
            self.add(None if isinstance(obj.__self__, ModuleType) else obj.__self__)
            self.add(getattr(obj, "__func__", None))
        elif type(obj) in (tuple, list) or isinstance(obj, (staticmethod, classmethod, property)):
            items = obj if isinstance(obj, (tuple, list)) else _wrapped(obj)
            self._all((str(i), item) for i, item in enumerate(items))
        elif type(obj) is dict:
            self._all((repr(i), pair) for i, pair in enumerate(obj.items()))
        elif isinstance(obj, (set, frozenset)):
            self._text(*sorted(fingerprint(item) for item in obj))
        elif isinstance(obj, np.ndarray) and obj.dtype != object:
            self._text(obj.dtype.str, str(obj.shape))
            self._hash.update(np.ascontiguousarray(obj).tobytes())
        else:
            self._reduced(obj)

    def _all(self, parts: Iterator[tuple[str, object]]) -> None:
        for name, part in parts:
            self._text(name)
            self.add(part)
        self._text("end")

    def _is_reference(self, obj: FunctionType | type) -> bool:
        """Whether another process can import it, and would get the same."""
        return is_importable(obj, path=self._path)

    def _module(self, module: ModuleType) -> None:
        self._text(module.__name__)
        if not self._path.has(module):
            content = sorted(vars(module).items())
            self._all((name, value) for name, value in content if not name.startswith("__"))

    def _reduced(self, obj: object) -> None:
        """Anything else counts by what pickle would take of it."""
        try:
            reduced = obj.__reduce_ex__(4)
        except Exception:  # it cannot travel either, which packing says much better
            return self._text(repr(type(obj)))
        if isinstance(reduced, str):
            return self._text(reduced, str(getattr(obj, "__module__", "")))
        self.add(type(obj))
        for part in reduced[:3]:
            self.add(part)
        for items in reduced[3:5]:
            if items is not None:
                self._all((str(i), item) for i, item in enumerate(items))


def _function_parts(function: FunctionType) -> Iterator[tuple[str, object]]:
    yield "code", function.__code__
    yield "defaults", function.__defaults__
    yield "kwdefaults", function.__kwdefaults__
    yield from closure_of(function).items()
    yield from sorted(used_globals(function).items())
    yield from sorted((name, value) for name, value in vars(function).items() if name != "__wrapped__")


def _class_parts(cls: type) -> Iterator[tuple[str, object]]:
    yield "name", cls.__qualname__
    yield "bases", cls.__bases__
    for name, value in sorted(vars(cls).items()):
        if name not in _NOT_OF_THE_CLASS and type(value).__name__ not in ("member_descriptor", "getset_descriptor"):
            yield name, value


def _code_parts(code: CodeType) -> Iterator[tuple[str, object]]:
    yield "bytes", code.co_code
    yield "constants", code.co_consts
    yield "names", (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    yield "counts", (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    yield "exceptions", getattr(code, "co_exceptiontable", b"")


def _wrapped(obj: object) -> tuple[object, ...]:
    if isinstance(obj, property):
        return obj.fget, obj.fset, obj.fdel
    return (getattr(obj, "__func__", None),)
