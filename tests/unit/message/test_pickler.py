"""Cached functions and properties, and functions of many types, travel like the functions in them."""

from __future__ import annotations

import functools
import os
import pickle
import re
from collections.abc import Callable

import pytest

from dflow_core.message import FlowMsg, MsgInfo, decode, encode, home_of
from dflow_core.udf.packaging import pack, unpack


def by_message(value: object) -> object:
    msg = encode(value, MsgInfo())
    assert msg.block is not None
    return decode(FlowMsg.from_block(msg.block))


WAYS: dict[str, Callable[[object], object]] = {"message": by_message, "package": lambda value: unpack(pack(value))}


def made_here() -> dict[str, tuple[Callable[..., object], list[tuple[object, object]]]]:
    """Functions that no other interpreter can import, with arguments and what they give."""
    offset = 1

    @functools.cache
    def plain(n: int) -> int:
        return n + offset

    @functools.lru_cache(maxsize=2, typed=True)
    def limited(n: object) -> object:
        return n

    @functools.cache
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    @functools.singledispatch
    def kind(value: object) -> str:
        return "object"

    @kind.register
    def _(value: int) -> str:
        return "number"

    @kind.register
    def _(value: list) -> str:  # type: ignore[type-arg]
        return "list of " + ", ".join(kind(one) for one in value)

    class Model:
        made = 0

        def __init__(self, factor: int) -> None:
            self.factor = factor

        @functools.cached_property
        def weights(self) -> list[int]:
            type(self).made += 1
            return [self.factor]

        @functools.cache  # noqa: B019
        def scaled(self, n: int) -> int:
            return n * self.factor

        @functools.singledispatchmethod
        def kind(self, value: object) -> str:
            return "object"

        @kind.register
        def _(self, value: int) -> str:
            return "number"

    model = Model(3)

    def use(n: int) -> tuple[object, ...]:
        return model.weights, model.weights, model.scaled(n), type(model).made, model.kind(n), model.kind("")

    return {
        "cache": (plain, [(1, 2), (5, 6)]),
        "limited cache": (limited, [(1, 1), (1.0, 1.0), (True, True)]),
        "cached and recursive": (fib, [(30, 832040)]),
        "function of many types": (kind, [(1, "number"), ("", "object"), ([1, [2]], "list of number, list of number")]),
        "cached property and methods": (use, [(2, ([3], [3], 6, 1, "number", "object"))]),
        "in a closure": (lambda n: (plain(n), fib(n)), [(10, (11, 55))]),
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", made_here())
def test_decorated_functions_of_the_standard_library_arrive_and_work(name: str, way: str) -> None:
    """ray-project/ray#5766, joblib/loky#268, cloudpipe/cloudpickle#438: they go by name, or hold a lock."""
    func, calls = made_here()[name]
    again = WAYS[way](func)
    assert callable(again) and again is not func
    assert [again(argument) for argument, _ in calls] == [result for _, result in calls]


def test_a_cache_arrives_empty_and_with_its_limits() -> None:
    func, _ = made_here()["limited cache"]
    func(1)
    again = by_message(func)
    assert again.cache_parameters() == {"maxsize": 2, "typed": True}  # type: ignore[attr-defined]
    assert again.cache_info().currsize == 0 and func.cache_info().currsize == 1  # type: ignore[attr-defined]
    assert again.__name__ == "limited"  # type: ignore[attr-defined]


@functools.cache
def importable(n: int) -> int:
    return n


@pytest.mark.parametrize("func", [importable, re._compile if hasattr(re, "_compile") else os.path.join])
def test_what_can_be_imported_goes_by_name(func: Callable[..., object]) -> None:
    assert by_message(func) is func


@pytest.mark.parametrize(("obj", "named", "home"), [
    (importable, None, __name__), (os.path.join, None, "posixpath"), (lambda: 0, None, None), (3, None, None),
    (pickle, os.path.join, None),
])
def test_home_is_the_module_where_an_object_is_found_by_its_name(obj: object, named: object, home: str | None) -> None:
    found = home_of(obj, named)
    assert (found.__name__ if found is not None else None) == home
