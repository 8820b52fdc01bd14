"""Pickles what cloudpickle leaves out: cached functions and properties, and functions of many types.

They hold locks, caches or weak references, or ask to be found by a name that a fresh interpreter does not know. All are
made anew from the functions in them; what a cache holds stays where it is.
"""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloudpickle import Pickler

_CACHED = type(functools.lru_cache(lambda: None))
_OF_DISPATCH = ("registry", "dispatch", "register", "_clear_cache")


def home_of(obj: object, named: object = None) -> ModuleType | None:
    """The module in which an object is found by its name, or None; `__main__` is nobody else's home.

    Args:
        obj: The object.
        named: Object whose `__module__` and `__qualname__` say where; `obj` itself if not given.
    """
    named = obj if named is None else named
    module = sys.modules.get(str(getattr(named, "__module__", None)))
    qualname = getattr(named, "__qualname__", None)
    if module is None or module.__name__ == "__main__" or not isinstance(qualname, str):
        return None
    found: object = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return module if found is obj else None


@cache
def pickler_class() -> type[Pickler]:
    """The class that pickles messages and, extended, code; made when it is first used, for what it imports."""
    import cloudpickle

    class MessagePickler(cloudpickle.Pickler):  # type: ignore[misc]  # untyped library
        """Knows the decorated functions of the standard library, and takes no open files."""

        def goes_by_name(self, obj: object) -> bool:
            """Whether the reader can import an object."""
            return home_of(obj) is not None

        def reducer_override(self, obj: object) -> object:
            if isinstance(obj, _CACHED) and not self.goes_by_name(obj):
                parameters = obj.cache_parameters()
                return _cached, (obj.__wrapped__, parameters["maxsize"], parameters["typed"])
            if isinstance(obj, FunctionType) and _is_dispatcher(obj) and not self.goes_by_name(obj):
                return _dispatcher, (tuple(vars(obj)["registry"].items()),)
            if type(obj) is functools.cached_property:
                return _cached_property, (obj.func, obj.attrname)
            if type(obj) is functools.singledispatchmethod:
                return _dispatch_method, (obj.func, obj.dispatcher)
            if isinstance(obj, io.TextIOWrapper):
                return getattr, (sys, _stream_name(obj))
            return super().reducer_override(obj)

    return MessagePickler


def _stream_name(stream: io.TextIOWrapper) -> str:
    """Which of the standard streams it is; cloudpickle would send the content of any other file along."""
    for name in ("stdin", "stdout", "stderr"):
        if stream is getattr(sys, name):
            return name
    raise pickle.PicklingError("an open file belongs to its process")


def _cached_property(func: Callable[[object], object], name: str | None) -> functools.cached_property[object]:
    made = functools.cached_property(func)
    made.attrname = name
    return made


def _cached(func: Callable[..., object], maxsize: int | None, typed: bool) -> Callable[..., object]:
    return functools.lru_cache(maxsize, typed)(func)


def _dispatch_method(
    func: Callable[..., object], dispatcher: Callable[..., object]
) -> functools.singledispatchmethod[object]:
    made = functools.singledispatchmethod(func)
    vars(made)["dispatcher"] = dispatcher
    return made


def _is_dispatcher(func: FunctionType) -> bool:
    return all(name in vars(func) for name in _OF_DISPATCH)


def _dispatcher(registry: tuple[tuple[type, Callable[..., object]], ...]) -> Callable[..., object]:
    """A `functools.singledispatch` function of one function for each type; that of `object` is the general one."""
    functions = dict(registry)
    made = functools.singledispatch(functions.pop(object))
    for kind, func in functions.items():
        made.register(kind, func)
    return made
