"""The decorators that turn functions and classes into what nodes are made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar, overload

from dflow_core.errors import UsageError
from dflow_core.frontend.flow_class import init_wrapper, proc_wrapper
from dflow_core.frontend.py_class import METHOD_ATTRIBUTE, MethodNode, decorate_class
from dflow_core.frontend.py_function import PyFunction
from dflow_core.frontend.settings import call_options, settings
from dflow_core.graph import FlowNode, FuncProcessPoint

__all__ = ["MethodNode", "PyFunction", "builtin_node", "init_wrapper", "method", "proc_wrapper", "pyflow"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class Decorator(Protocol):
    """What `pyflow(option=...)` gives."""

    @overload
    def __call__(self, target: type[T], /) -> type[T]: ...  # type: ignore[overload-overlap]  # classes are callable
    @overload
    def __call__(self, target: Callable[P, R], /) -> PyFunction[P, R]: ...


@overload
def pyflow(target: type[T], /, **options: object) -> type[T]:  # type: ignore[overload-overlap]  # same
    """On a class."""


@overload
def pyflow(target: Callable[P, R], /, **options: object) -> PyFunction[P, R]:
    """On a function."""


@overload
def pyflow(**options: object) -> Decorator:
    """With options only."""


def pyflow(target: object = None, /, **options: object) -> object:
    """Let a function or class make nodes: `@pyflow`, `@pyflow(instances=2)`, or `pyflow(function)`.

    A decorated function is called as before, and `function.fnode()` makes a node that calls it in an executor. Each
    parameter that can be given by position is an input, also one with a default; outputs are counted from the return
    annotation (`-> tuple[A, B]` has two, everything else one). A generator function sends what it yields at once.

    A decorated class is used as before, and `Class.fnode(*args)` makes a node whose executor makes the object and calls
    its `@method`s: `node.add(x, y)` wires one of them. Methods take their ports in alphabetical order.

    Args:
        target: The function or class.
        options: `num_returns`, `num_inputs` (for `*args`, or to leave out defaults), `gather` (called once per
            transaction with a list of all parts that generators upstream made of it), `choice_output` (a function that
            says for each value whether it is sent), `stream` (for callables that return generators),
            `stream_input="Queue"` (its parameters are queues, from which it takes what it wants; also for all methods
            of a class), `name` of the nodes, `resources`, and what `FlowNode.set_options` knows: `instances`,
            `threads`, `env`, `call_timeout`, `on_error`, `restarts`, `when_lost`, `process`, `depth`, `engine`.

    Raises:
        OptionError: an unknown option (with the nearest known ones), or one that contradicts the function.
        UsageError: neither a function nor a class, or one that cannot be a node.
    """
    known = settings(options)

    def decorate(target: object) -> object:
        if isinstance(target, type):
            return decorate_class(target, known)
        if not callable(target):
            raise UsageError(f"@pyflow: expected a function or class, got {target!r}")
        return PyFunction(target, known)

    return decorate if target is None else decorate(target)


@overload
def method(func: F, /) -> F:
    """On a method."""


@overload
def method(**options: object) -> Callable[[F], F]:
    """With options only."""


def method(func: F | None = None, /, **options: object) -> F | Callable[[F], F]:
    """Mark a method of a `@pyflow` class as a function of its nodes.

    Args:
        func: The method, when used without brackets.
        options: `num_returns`, `num_inputs`, `gather`, `choice_output`, `stream`, `stream_input`, as for `pyflow`.

    Raises:
        OptionError: an unknown option (with the nearest known ones), or a value it cannot have.
    """
    known = call_options(options, "@method")

    def mark(func: F) -> F:
        if not callable(getattr(func, "__func__", func)):
            raise UsageError(f"@method: expected a method, got {func!r}")
        setattr(getattr(func, "__func__", func), METHOD_ATTRIBUTE, known)
        return func

    return mark if func is None else mark(func)


def builtin_node(
    builtin: str, input_num: int = 1, output_num: int = 1, /, name: str | None = None, **params: object
) -> FlowNode:
    """A node that runs a function which a plugin registered.

    Args:
        builtin: Name it is registered under, such as `_BuiltIn_CountBatch`; `dflow plugins` lists them.
        input_num, output_num: Ports of the node.
        name: Name of the node; without one it is called like the function.
        params: Its init parameters.

    Raises:
        OptionError: a parameter of a type that cannot travel.
    """
    point = FuncProcessPoint(builtin=builtin)
    for key, value in params.items():
        point.set_init_param(key, value)
    return point.fnode(input_num, output_num, name)
