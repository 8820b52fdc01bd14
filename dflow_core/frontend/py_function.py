"""Decorated functions: called as before, and able to make nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from dflow_core.frontend.building import analyse, label_of, make_package, point_of
from dflow_core.frontend.settings import Settings
from dflow_core.graph import FlowNode, FuncPackage

P = ParamSpec("P")
R = TypeVar("R")


class PyFunction(Generic[P, R]):
    """A function that can be a node.

    Args:
        func: Any callable: function, lambda, functools.partial, object with `__call__`.
        options: What the decorator was given.

    Raises:
        OptionError: options that contradict the function.
        UsageError: a function that cannot be a node.
    """

    __name__: str
    __qualname__: str

    def __init__(self, func: Callable[P, R], options: Settings) -> None:
        functools.update_wrapper(self, func)
        self.__dflow_target__ = func
        self.__name__ = options.name or label_of(func)
        self._options = options
        self._analysed = analyse(func, options.call, label_of(func))
        self._packages: dict[bool, FuncPackage] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, here and now."""
        return self.__dflow_target__(*args, **kwargs)

    def fnode(self, name: str | None = None, **options: object) -> FlowNode:
        """A node that calls the function.

        Args:
            name: Name of the node; without one it is called like the function.
            options: Options of the node, see `FlowNode.set_options`; they win over the decorator's.

        Raises:
            OptionError: an unknown option, or a value it cannot have.
            PackagingError: something the function needs cannot travel to another process; names it.
        """
        package = self.__dflow_packer__(self)
        node = point_of(package).fnode(package.input_num, package.output_num, name)
        return node.set_options(**{**self._options.node, **options})

    def __dflow_packer__(self, _target: object) -> FuncPackage:
        """Make the function ready to travel; `FuncProcessPoint(py_func=...)` looks for this."""
        from dflow_core.udf import is_importable

        by_name = is_importable(self, self.__dflow_target__)
        made = make_package(
            "function", self if by_name else self.__dflow_target__, [self._analysed], self._options, self.__name__,
            known=self._packages.get(by_name),
        )
        self._packages[by_name] = made
        return made

    def __reduce_ex__(self, protocol: object) -> str | tuple[object, ...]:
        # A function that is found by its name goes by name, as pickle does with plain functions.
        from dflow_core.udf import goes_by_name

        if goes_by_name(self, self.__dflow_target__):
            return self.__dflow_target__.__qualname__
        return object.__reduce_ex__(self, 2)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_packages": {}}  # they are made of it

    def __repr__(self) -> str:
        return f"<pyflow {self.__dflow_target__!r}>"
