"""From a function and its options to a process point on a node. `udf` is loaded when the first node is made."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dflow_core.errors import OptionError, UsageError
from dflow_core.frontend.returns import count_returns
from dflow_core.frontend.settings import CallOptions, Settings
from dflow_core.frontend.signatures import count_inputs
from dflow_core.graph import FuncPackage, FuncProcessPoint
from dflow_core.message import msg_types
from dflow_core.types import FuncSpec


@dataclass(frozen=True, slots=True)
class Analysed:
    """What is known of one function.

    Args:
        name: Its name.
        inputs, outputs: How many it has.
        options: How it is called.
        generator: Whether one call gives several sets of values.
    """

    name: str
    inputs: int
    outputs: int
    options: CallOptions
    generator: bool


def analyse(func: Callable[..., object], options: CallOptions, name: str, *, is_method: bool = False) -> Analysed:
    """Count the ports of a function and find out how it answers.

    Raises:
        OptionError: options that contradict the function.
        UsageError: a function that cannot be a node (async, or with parameters no input can fill).
    """
    code = _code_of(func)
    if inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code):
        hint = "write it with def; each instance works on one call at a time, instances= gives more of them"
        raise UsageError(f"{name} is an async function, which a node cannot call", hint=hint)
    yields = inspect.isgeneratorfunction(code)
    if yields and options.stream is False:
        raise OptionError(f"{name}: stream=False, but it is a generator function", hint="leave stream out")
    inputs = count_inputs(func, options.num_inputs, is_method=is_method)
    if options.gather and inputs != 1:
        hint = "a gathering function gets one list with the parts of a transaction"
        raise OptionError(f"{name}: gather=True needs exactly one parameter, got {inputs}", hint=hint)
    if options.stream_input and not inputs:
        raise OptionError(f"{name}: stream_input needs a parameter for each queue, got none")
    outputs = count_returns(code, options.num_returns, yields or bool(options.stream))
    return Analysed(name, inputs, outputs, options, yields or bool(options.stream))


def make_package(
    kind: str, target: object, functions: Sequence[Analysed], options: Settings, name: str,
    init: tuple[tuple[object, ...], Mapping[str, object]] = ((), {}), known: FuncPackage | None = None,
) -> FuncPackage:
    """Make user code ready to travel.

    Args:
        kind: `function` or `class`.
        target: The function or class.
        functions: Its functions, in port order.
        options: What the decorator was given.
        name: What nodes are called.
        init: Arguments of the class.
        known: What this gave before, for the same arguments; given again if nothing has changed since.

    Raises:
        PackagingError: something in it cannot travel.
    """
    from dflow_core.udf import MethodSpec, PythonFunc

    specs, methods = [], []
    first_in = first_out = 0
    for f in functions:
        choice, gather, with_queues = f.options.choice_output, f.options.gather, bool(f.options.stream_input)
        specs.append(
            FuncSpec(
                f.name, tuple(range(first_in, first_in + f.inputs)), tuple(range(first_out, first_out + f.outputs)),
                gather=gather, n_mapping=f.generator or choice is not None or with_queues, stream_input=with_queues,
                generator=f.generator and not with_queues,
            )
        )
        methods.append(MethodSpec(f.name, f.outputs, choice, gather, f.generator))
        first_in, first_out = first_in + f.inputs, first_out + f.outputs
    func = PythonFunc(kind, target, init[0], dict(init[1]), tuple(methods), msg_types.codecs())
    memory = {"memory_mb": str(options.memory)} if options.memory else {}
    return packed(func, specs, (first_in, first_out), name, memory, known)


def packed(
    func: object, specs: Sequence[FuncSpec], ports: tuple[int, int], name: str, attrs: Mapping[str, str],
    known: FuncPackage | None = None,
) -> FuncPackage:
    """Pickle a PythonFunc, with what caches and people want to know of it; arguments as for `make_package`.

    Raises:
        PackagingError: something in it cannot travel.
    """
    from dflow_core.udf import PythonFunc, fingerprint, pack

    assert isinstance(func, PythonFunc)
    facts = dict(attrs) | {"fingerprint": fingerprint(func)}
    if known is not None and known.attrs.get("fingerprint") == facts["fingerprint"]:
        return known
    with contextlib.suppress(TypeError, OSError):
        facts["source"] = inspect.getsourcefile(_code_of(func.target)) or ""
    return FuncPackage(pack(func), tuple(specs), ports[0], ports[1], name, facts)


def point_of(package: FuncPackage) -> FuncProcessPoint:
    """The process point that runs packed code."""
    point = FuncProcessPoint(
        name=package.name, package=package.package, functions=package.functions, attrs=package.attrs
    )
    for key, called in package.invoked.items():
        point.add_invoked_closure(key, called)
    return point


def label_of(func: object) -> str:
    """What a function is called where people read it."""
    if isinstance(func, functools.partial):
        return label_of(func.func)
    name = str(getattr(func, "__name__", type(func).__name__))
    return name.strip("<>")


def _code_of(func: object) -> Callable[..., object]:
    """The function in which the work is written: below partials, wrappers and callable objects."""
    while True:
        if isinstance(func, functools.partial):
            func = func.func
        elif hasattr(func, "__dflow_target__"):
            func = func.__dflow_target__
        elif callable(func) and not inspect.isroutine(func) and not isinstance(func, type):
            return type(func).__call__ if inspect.isfunction(type(func).__call__) else func
        else:
            assert callable(func)
            return func
