"""Pickles by value what a fresh interpreter cannot import; the only module that knows cloudpickle."""

from __future__ import annotations

import contextlib
import io
import pickle
import threading
from collections import ChainMap
from collections.abc import Iterator, Mapping
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, ClassVar

from dflow_core.message import home_of, pickler_class
from dflow_core.udf.importable import ImportPath

if TYPE_CHECKING:
    from cloudpickle import Pickler

_registry = threading.RLock()  # cloudpickle's list of modules by value belongs to the whole process


@contextlib.contextmanager
def by_value_modules() -> Iterator[None]:
    """Let cloudpickle take what cannot be imported elsewhere by value, in this block and no longer."""
    import cloudpickle

    with _registry:
        already = cloudpickle.list_registry_pickle_by_value()
        ours = [module for module in ImportPath().by_value() if module.__name__ not in already]
        try:
            for module in ours:
                cloudpickle.register_pickle_by_value(module)
            yield
        finally:
            for module in ours:
                cloudpickle.unregister_pickle_by_value(module)


def dumps(obj: object, stream: io.BytesIO) -> bool:
    """Pickle an object into a stream; whether code went into it by value."""
    with by_value_modules():
        return dumps_registered(obj, stream)


def dumps_registered(obj: object, stream: io.BytesIO) -> bool:
    """As `dumps`, inside `by_value_modules`."""
    pickler = _pickler_class()(stream)
    pickler.dump(obj)
    return bool(getattr(pickler, "has_code", False))


def loads(data: bytes) -> object:
    """The inverse of `dumps`."""
    found: object = pickle.loads(data)
    return found


def travels_by_value(module: ModuleType) -> bool:
    """Whether a module is taken by value, inside `by_value_modules`."""
    import cloudpickle

    registered = cloudpickle.list_registry_pickle_by_value()
    parts = module.__name__.split(".")
    return any(".".join(parts[: i + 1]) in registered for i in range(len(parts)))


def goes_by_name(obj: object, named: object) -> bool:
    """Whether pickling may write down only where an object is found, right now.

    Args:
        obj: The object.
        named: Object whose `__module__` and `__qualname__` say where.
    """
    module = home_of(obj, named)
    return module is not None and not travels_by_value(module)


def _new_module(name: str) -> ModuleType:
    return ModuleType(name)


def _fill_module(module: ModuleType, content: Mapping[str, object]) -> None:
    module.__dict__.update(content)
    module.__dict__["__builtins__"] = __builtins__


def _reduce_code(code: CodeType) -> tuple[object, ...]:
    """As cloudpickle does it, but with the file the code came from, so that tracebacks and breakpoints find it."""
    import cloudpickle

    rebuild, arguments = cloudpickle.Pickler.dispatch_table[CodeType](code)
    file = "".join(code.co_filename)
    return rebuild, tuple(file if argument == _NO_FILE else argument for argument in arguments)


@cache
def _pickler_class() -> type[Pickler]:
    import cloudpickle

    base = pickler_class()

    class Pickler_(base):  # type: ignore[misc, valid-type]  # untyped library
        """Takes modules by value without going in circles."""

        has_code = False
        dispatch_table: ClassVar[Mapping[type, object]] = ChainMap(
            {CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table
        )

        def goes_by_name(self, obj: object) -> bool:
            return goes_by_name(obj, obj)

        def reducer_override(self, obj: object) -> object:
            if isinstance(obj, ModuleType) and travels_by_value(obj):
                self.has_code = True
                content = {k: v for k, v in vars(obj).items() if k not in _OF_THE_IMPORT}
                return _new_module, (obj.__name__,), content, None, None, _fill_module
            reduced = super().reducer_override(obj)
            if reduced is not NotImplemented and isinstance(obj, (FunctionType, type)) and obj is not type(None):
                self.has_code = True
            return reduced

    return Pickler_


_NO_FILE = "<dynamic-code>"
_OF_THE_IMPORT = frozenset({"__builtins__", "__loader__", "__spec__", "__cached__"})
