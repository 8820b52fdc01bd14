"""Checks of what callers pass in, against the types the interface documents."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from dataflow.utils.errors import DfException

__all__ = ["assert_args_type", "get_param_count", "get_typing_num_returns"]

P = ParamSpec("P")
R = TypeVar("R")


def assert_args_type(*wanted: object, **wanted_by_name: object) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the arguments a function is called with; defaults are not checked.

    Args:
        wanted: Types of the parameters in order, `self` included.
        wanted_by_name: Types by name. Plain types, `Dict[K, V]`, `List[T]` and `Union[...]` are known.

    Raises:
        DfException: 145000, when the function is called with something else.
        TypeError: a kind of type that is not known.
    """

    def decorate(func: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(func)
        expected = dict(signature.bind_partial(*wanted, **wanted_by_name).arguments)

        @functools.wraps(func)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if name in expected and not _fits(value, expected[name]):
                    raise DfException(f"Argument {name} must be {expected[name]}")
            return func(*args, **kwargs)

        return checked

    return decorate


def _fits(value: object, wanted: object) -> bool:
    if isinstance(wanted, type) and typing.get_origin(wanted) is None:
        return isinstance(value, wanted)
    origin, args = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in value.items())
    if origin is list:
        return isinstance(value, list) and all(_fits(item, args[0]) for item in value)
    if origin is typing.Union or origin is types.UnionType:
        return any(_fits(value, arg) for arg in args)
    raise TypeError(f"type {wanted} is not supported")


def get_param_count(func: Callable[..., object]) -> int:
    """How many inputs a function has: its parameters but `self` and `cls`; each needs an edge."""
    return sum(name not in ("self", "cls") for name in inspect.signature(func).parameters)


def get_typing_num_returns(func: Callable[..., object]) -> int:
    """How many outputs the return annotation says, or -1 where there is none."""
    annotations: Mapping[str, object] = getattr(func, "__annotations__", {})
    if "return" not in annotations:
        return -1
    inside = getattr(annotations["return"], "__args__", None)
    return len(inside) if inside else 1
