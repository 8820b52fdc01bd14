"""Python functions and classes made ready to travel, as the core wants them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dataflow import codes
from dataflow.calls import ActorMaker, Call, Choice, Setup, is_generator, port_ranges
from dataflow.utils.arguments import get_param_count
from dataflow.utils.errors import DfException
from dataflow.utils.msg_type_register import get_msg_type_register
from dflow_core import udf
from dflow_core.errors import DflowError
from dflow_core.graph import FuncPackage
from dflow_core.graph import FuncProcessPoint as CorePoint
from dflow_core.types import FuncSpec

__all__ = ["Function", "package_of", "packed_class", "packed_function"]


@dataclass(frozen=True, slots=True)
class Function:
    """What is known of one function of a node.

    Args:
        name: Its name.
        func: The function.
        outputs: How many outputs it has.
        choice: The user's `choice_output`.
        stream_input: Whether it takes queues instead of values.
    """

    name: str
    func: Callable[..., object]
    outputs: int
    choice: Callable[[object], object] | None = None
    stream_input: bool = False

    @property
    def inputs(self) -> int:
        """How many inputs it has."""
        return get_param_count(self.func)


@dataclass(frozen=True, slots=True)
class ClassTarget:
    """A decorated class and what its object is made with.

    Args:
        clz: The class.
        args, kwargs: Arguments of its constructor.
        wrap: Makes of each method what is called in its place; None calls it itself.
    """

    clz: type
    args: tuple[object, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    wrap: Callable[..., Callable[..., object]] | None = None


def packed_function(function: Function, hook: Callable[[], object] | None) -> FuncPackage:
    """A function, ready to travel.

    Raises:
        DfException: something in it cannot travel.
    """
    call = Call(Setup(hook, get_msg_type_register()), function.func, function.outputs, function.name)
    return _packed(udf.PythonFunc("function", call, methods=_methods([function])), [function], function.name)


def packed_class(
    target: ClassTarget, functions: Sequence[Function], hook: Callable[[], object] | None
) -> FuncPackage:
    """A class and its methods, ready to travel.

    Raises:
        DfException: something in it cannot travel.
    """
    setup = Setup(hook, get_msg_type_register())
    maker = ActorMaker(setup, target.clz, {function.name: function.outputs for function in functions}, target.wrap)
    code = udf.PythonFunc("class", maker, target.args, dict(target.kwargs), _methods(functions))
    return _packed(code, functions, target.clz.__name__)


def package_of(py_func: object) -> FuncPackage:
    """What `FuncProcessPoint(py_func=...)` was given, ready to travel.

    Args:
        py_func: A class with `@proc_wrapper` methods, or what `@pyflow` made.

    Raises:
        DfException: 564000 for something else.
    """
    maker = getattr(py_func, "_df_package", None)
    if maker is not None and not isinstance(py_func, type):
        made: FuncPackage = maker()
        return made
    try:
        point = CorePoint(py_func=py_func)
    except DflowError as error:
        raise DfException(error, codes.FUNC_FAILED) from error
    inputs = sum(len(function.inputs) for function in point.functions)
    outputs = len({port for function in point.functions for port in function.outputs})
    return FuncPackage(point.package, point.functions, inputs, outputs, point.name, point.attrs)


def _methods(functions: Sequence[Function]) -> tuple[udf.MethodSpec, ...]:
    return tuple(
        udf.MethodSpec(
            function.name, function.outputs, None if function.choice is None else Choice(function.choice),
            generator=is_generator(function.func),
        )
        for function in functions
    )


def _packed(code: udf.PythonFunc, functions: Sequence[Function], name: str) -> FuncPackage:
    ranges = port_ranges([(function.inputs, function.outputs) for function in functions])
    specs = tuple(
        FuncSpec(
            function.name, inputs, outputs, stream_input=function.stream_input,
            n_mapping=is_generator(function.func) or function.choice is not None or function.stream_input,
            generator=is_generator(function.func) and not function.stream_input,
        )
        for function, (inputs, outputs) in zip(functions, ranges)
    )
    try:
        attrs = {"fingerprint": udf.fingerprint(code), "source": _source(functions[0].func)}
        package = udf.pack(code, name)
    except DflowError as error:
        raise DfException(error) from error
    counts = (sum(len(spec.inputs) for spec in specs), sum(len(spec.outputs) for spec in specs))
    return FuncPackage(package, specs, *counts, name, attrs)


def _source(func: Callable[..., object]) -> str:
    try:
        return inspect.getsourcefile(func) or ""
    except (TypeError, OSError):
        return ""
