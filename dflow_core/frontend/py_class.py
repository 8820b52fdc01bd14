"""Decorated classes: made and used as before, and able to make nodes with one function per method.

Methods take their ports in alphabetical order, as upstream has it: of `add` and `sub`, `add` has the first inputs and
outputs of the node.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from dflow_core.errors import UsageError
from dflow_core.frontend.building import Analysed, analyse, make_package, point_of
from dflow_core.frontend.settings import CallOptions, Settings
from dflow_core.graph import (
    PACKER_ATTRIBUTE,
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    FlowOutput,
    FuncPackage,
    InvokedGraph,
    ProcessPoint,
    Source,
)
from dflow_core.types import FuncSpec

T = TypeVar("T")
Wire: TypeAlias = "Callable[..., FlowOutput | tuple[FlowOutput, ...] | None]"

METHOD_ATTRIBUTE = "__dflow_method__"
SETTINGS_ATTRIBUTE = "__dflow_settings__"


class MethodNode(FlowNode):
    """A node whose methods are wired one by one: `node.add(x, y)`."""

    def __getattr__(self, name: str) -> Wire:
        spec = self._spec(name)
        if spec is None:
            known = ", ".join(self.method_names())
            raise AttributeError(f"node {self.name!r} has no method {name!r}; it has {known}")
        return functools.partial(self._wire_method, spec)

    def method_names(self) -> tuple[str, ...]:
        """Its methods, in the order of their ports."""
        return tuple(spec.name for spec in self._specs())

    def _specs(self) -> tuple[FuncSpec, ...]:
        points: list[object] = self.__dict__.get("_points", [])
        return getattr(points[0], "functions", ()) if points else ()

    def _spec(self, name: str) -> FuncSpec | None:
        return next((spec for spec in self._specs() if spec.name == name), None)

    def _wire_method(self, spec: FuncSpec, *inputs: Source) -> FlowOutput | tuple[FlowOutput, ...] | None:
        return self.wire(inputs, spec.inputs, spec.outputs)


def decorate_class(cls: type[T], options: Settings) -> type[T]:
    """Give a class the ability to make nodes.

    Raises:
        UsageError: it has no `@method`, has `fnode` already, or a method is called like something nodes have.
        OptionError: options that contradict a method, or that belong to methods.
    """
    if "fnode" in vars(cls):
        raise UsageError(f"class {cls.__qualname__} has a member called fnode already", hint="rename it")
    if replace(options.call, stream_input="") != CallOptions() and not _is_callable_object(cls):
        raise UsageError(
            f"class {cls.__qualname__}: num_returns, num_inputs, gather, choice_output and stream belong to methods",
            hint="give them to @method",
        )
    taken = set(dir(FlowNode(0, 0)))
    for function in _functions(cls, options):
        if function.name in taken and function.name != "__call__":
            raise UsageError(f"{cls.__qualname__}.{function.name}: nodes have a member of that name", hint="rename it")
    setattr(cls, SETTINGS_ATTRIBUTE, options)
    setattr(cls, PACKER_ATTRIBUTE, staticmethod(_pack_class))
    cls.fnode = classmethod(_fnode)  # type: ignore[attr-defined]  # that is what the decorator is for
    return cls


def _fnode(cls: type[object], /, *args: object, **kwargs: object) -> FlowNode:
    """A node with one function for each method of the class.

    Args:
        args, kwargs: Arguments of the class; it is made in the executor only. A process point or a FlowGraph among
            them arrives there as an InvokedGraph, which the object can call while it works.

    Raises:
        UsageError: arguments the class does not take.
        PackagingError: something cannot travel to another process; names it.
    """
    try:
        inspect.signature(cls).bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(f"{cls.__qualname__}.fnode: {error}", hint="give it what the class takes") from None
    except ValueError:  # no signature to be read: the executor will see
        pass
    invoked, args, kwargs = _invoked_among(cls, args, kwargs)
    package = replace(_pack_class(cls, args, kwargs), invoked=invoked)
    node = MethodNode(package.input_num, package.output_num)
    node.add_process_point(point_of(package))
    return node.set_options(**getattr(cls, SETTINGS_ATTRIBUTE).node)


def _invoked_among(
    cls: type[object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[dict[str, ProcessPoint], tuple[object, ...], dict[str, object]]:
    """The graphs and models among the arguments of a class, and the arguments with what stands for them."""
    invoked: dict[str, ProcessPoint] = {}

    def stand_in(name: str, value: object) -> object:
        if not isinstance(value, (ProcessPoint, FlowGraph)):
            return value
        invoked[name] = value if isinstance(value, ProcessPoint) else FlowGraphProcessPoint(value)
        return InvokedGraph(name)

    names = list(inspect.signature(cls).parameters) if args else []
    given = tuple(stand_in(names[i] if i < len(names) else f"{names[-1]}{i}", arg) for i, arg in enumerate(args))
    return invoked, given, {key: stand_in(key, value) for key, value in kwargs.items()}


def _pack_class(cls: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None) -> FuncPackage:
    assert isinstance(cls, type)
    options: Settings = getattr(cls, SETTINGS_ATTRIBUTE)
    name = options.name or cls.__name__
    return make_package("class", cls, _functions(cls, options), options, name, (args, kwargs or {}))


def _functions(cls: type[object], options: Settings) -> list[Analysed]:
    found = []
    for name in sorted(dir(cls)):
        member = inspect.getattr_static(cls, name)
        func = member.__func__ if isinstance(member, (staticmethod, classmethod)) else member
        call = getattr(func, METHOD_ATTRIBUTE, None)
        if isinstance(call, CallOptions):
            call = replace(call, stream_input=call.stream_input or options.call.stream_input)
            found.append(analyse(func, call, name, is_method=not isinstance(member, staticmethod)))
    if not found and _is_callable_object(cls):
        found.append(analyse(vars(cls)["__call__"], options.call, "__call__", is_method=True))
    if not found:
        hint = "put @method() on what nodes shall call, or define __call__"
        raise UsageError(f"class {cls.__qualname__} has no method a node could call", hint=hint)
    return found


def _is_callable_object(cls: type[object]) -> bool:
    has_methods = any(hasattr(getattr(cls, name, None), METHOD_ATTRIBUTE) for name in dir(cls))
    return not has_methods and inspect.isfunction(vars(cls).get("__call__"))
