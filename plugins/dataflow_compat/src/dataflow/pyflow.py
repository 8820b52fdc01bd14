"""`@pyflow` and `@method`: functions and classes that make nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from dataflow.flow_func.entry import run_entry
from dataflow.nodes import FlowNode, Wired
from dataflow.packages import ClassTarget, Function, packed_class, packed_function
from dataflow.points import FuncProcessPoint
from dataflow.settings import tell_ignored
from dataflow.utils.arguments import get_typing_num_returns
from dflow_core.graph import FuncPackage

__all__ = ["PyActorProcessPoint", "PyFunctionProcessPoint", "method", "pyflow"]

_OPTIONS = ("num_returns", "resources", "stream_input", "choice_output", "visible_device_enable", "env_hook_func")
_METHOD_OPTIONS = ("num_returns", "choice_output", "stream_input")
_VISIBLE = "_dflow_visible_device_enable"
_RESERVED = ("fnode", "_fnode", "_df_from_class")


@dataclass(frozen=True, slots=True)
class Options:
    """What `@pyflow` was given."""

    num_returns: int | None = None
    resources: Mapping[str, object] = field(default_factory=dict)
    stream_input: str | None = None
    choice_output: Callable[[object], object] | None = None
    visible_device_enable: bool = False
    env_hook_func: Callable[[], object] | None = None


class PyFunctionProcessPoint:
    """A decorated function: makes nodes that call it.

    Args:
        func: The function.
        options: What the decorator was given.
        called: What is called in its place, if it is not the function itself.
    """

    def __init__(
        self, func: Callable[..., object], options: Options, called: Callable[..., object] | None = None
    ) -> None:
        functools.update_wrapper(self, func)
        _check_stream(options.stream_input)
        self._func = func
        self._options = options
        self._function = Function(
            func.__name__, called or func, count_returns(func, options.num_returns), options.choice_output,
            options.stream_input == "Queue",
        )
        self.func_name = func.__name__
        self._module_name = func.__module__
        self._clz_name = func.__name__

    @property
    def input_num(self) -> int:
        """Inputs of its nodes."""
        return self._function.inputs

    @property
    def output_num(self) -> int:
        """Outputs of its nodes."""
        return self._function.outputs

    def fnode(self, *_args: object, **_kwargs: object) -> FlowNode:
        """A node that calls the function."""
        node = FlowNode(self.input_num, self.output_num, f"{self.func_name}_fnode")
        _place(node, FuncProcessPoint(py_func=self, workspace_dir=f"./{node.name}_ws"), self._options)
        return node

    def __call__(self, run_context: object, inputs: Sequence[object]) -> int:
        """Run one call with messages, as an executor does; the code it ends with."""
        return run_entry(self._function, run_context, inputs)

    def _df_package(self) -> FuncPackage:
        return packed_function(self._function, self._options.env_hook_func)


class PyActorProcessPoint:
    """Base of decorated classes; its objects are made in executors only."""

    _df_clz: ClassVar[type]
    _df_options: ClassVar[Options]
    _df_wrap: ClassVar[Callable[..., Callable[..., object]] | None] = None

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        raise TypeError(
            "PyActorProcessPoint.__init__ should not be called. Please use the @df.pyflow decorator instead."
        )

    @classmethod
    def fnode(cls, *args: object, **kwargs: object) -> FlowNode:
        """A node with one function for each `@method` of the class.

        Args:
            args, kwargs: Arguments of the class; it is made in the executor only.
        """
        actor = _Actor(cls._df_clz, cls._df_options, args, kwargs, cls._df_wrap)
        node = ActorNode(actor.functions, f"{cls._df_clz.__name__}_fnode")
        point = FuncProcessPoint(
            name=cls._df_clz.__name__, py_func=actor, workspace_dir=f"./{node.name}_ws"
        )
        _place(node, point, cls._df_options)
        return node


class _Actor:
    """A decorated class with the arguments of one node."""

    def __init__(
        self, clz: type, options: Options, args: tuple[object, ...], kwargs: Mapping[str, object],
        wrap: Callable[..., Callable[..., object]] | None,
    ) -> None:
        self._target = ClassTarget(clz, args, kwargs, wrap)
        self._options = options
        self._module_name = clz.__module__
        self._clz_name = clz.__name__
        self.functions = methods_of(clz, options)

    def _df_package(self) -> FuncPackage:
        return packed_class(self._target, self.functions, self._options.env_hook_func)


class ActorNode(FlowNode):
    """A node whose functions are wired one by one: `node.add(x, y)`.

    Args:
        functions: Its functions, in the order of their ports.
        name: Its name.
    """

    def __init__(self, functions: Sequence[Function], name: str) -> None:
        super().__init__(sum(f.inputs for f in functions), sum(f.outputs for f in functions), name)
        first_in = first_out = 0
        for function in functions:
            wire = functools.partial(
                self._build_flow_node, input_indexes=range(first_in, first_in + function.inputs),
                output_indexes=range(first_out, first_out + function.outputs),
            )
            setattr(self, function.name, wire)
            first_in, first_out = first_in + function.inputs, first_out + function.outputs

    def __getattr__(self, name: str) -> Callable[..., Wired]:
        raise AttributeError(f"node {self.__dict__.get('name')} has no method {name!r}")


def pyflow(*args: object, **kwargs: object) -> object:
    """Let a function or class make nodes: `@pyflow`, `@pyflow()` or `@pyflow(option=...)`.

    Args:
        args: The function or class, where there are no options.
        kwargs: `num_returns`, `resources`, `stream_input`, `choice_output`, `visible_device_enable`, `env_hook_func`.

    Raises:
        TypeError: an unknown option, or neither a function nor a class.
        AssertionError: a `num_returns` that cannot be.
    """
    if len(args) == 1 and not kwargs and callable(args[0]):
        return decorated(args[0], Options())
    for key in kwargs:
        if key not in _OPTIONS:
            raise TypeError(f"param:{key} is not support in @pyflow.")
    if args:
        raise TypeError("@pyflow takes a function or class, or options by name")
    options = Options(**kwargs)  # type: ignore[arg-type]  # names are checked above
    return lambda target: decorated(target, options)


def method(*args: object, **kwargs: object) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Mark a method of a `@pyflow` class as a function of its nodes; used with brackets.

    Args:
        args: None may be given.
        kwargs: `num_returns`, `choice_output`, `stream_input`.

    Raises:
        AssertionError: an unknown option.
    """
    assert not args, "@method must be used with brackets: @df.method()"
    for key in kwargs:
        assert key in (*_METHOD_OPTIONS, ""), f"param:{key} is not support in @method."

    def mark(func: Callable[..., object]) -> Callable[..., object]:
        _check_stream(kwargs.get("stream_input"))
        for key in _METHOD_OPTIONS:
            setattr(func, f"__df_{key}__", kwargs.get(key))
        func.__df_method__ = True  # type: ignore[attr-defined]  # that is what the decorator is for
        return func

    return mark


def decorated(target: object, options: Options) -> object:
    """A function or class that makes nodes.

    Raises:
        TypeError: neither a function nor a class, or a class with members of names it cannot have.
    """
    if isinstance(target, type):
        taken = [name for name in _RESERVED if hasattr(target, name)]
        if taken:
            raise TypeError(f"class {target.__name__} must not have a member {taken[0]}")
        if options.num_returns is not None:
            _check_num_returns(options.num_returns)
        body = {"_df_clz": target, "_df_options": options, "_df_from_class": target, "__module__": target.__module__,
                "__qualname__": target.__qualname__, "__doc__": target.__doc__}
        return type(target.__name__, (PyActorProcessPoint,), body)
    if not callable(target) or not hasattr(target, "__code__"):
        raise TypeError("@pyflow takes a function or a class")
    return PyFunctionProcessPoint(target, options)


def methods_of(clz: type, options: Options) -> list[Function]:
    """The decorated methods of a class, in alphabetical order."""
    found = []
    for name in dir(clz):
        func = getattr(clz, name)
        if name.startswith("__") or not getattr(func, "__df_method__", False):
            continue
        stream = getattr(func, "__df_stream_input__", None) or options.stream_input
        found.append(
            Function(
                name, func, count_returns(func, getattr(func, "__df_num_returns__", None)),
                getattr(func, "__df_choice_output__", None), stream == "Queue",
            )
        )
    return found


def count_returns(func: Callable[..., object], num_returns: object) -> int:
    """How many outputs a function has.

    Raises:
        AssertionError: a `num_returns` that cannot be, or that differs from the annotation.
    """
    annotated = get_typing_num_returns(func)
    if num_returns is None:
        return 1 if annotated == -1 else annotated
    count = _check_num_returns(num_returns)
    assert annotated in (-1, count), f"num_returns is {count}, but the annotation has {annotated}"
    return count


def _check_num_returns(num_returns: object) -> int:
    assert isinstance(num_returns, int) and num_returns > 0, f"num_returns must be an int > 0, got {num_returns!r}"
    return num_returns


def _check_stream(stream_input: object) -> None:
    if stream_input not in (None, "", "Queue"):
        raise TypeError(f'stream_input must be "Queue", got {stream_input!r}')


def _place(node: FlowNode, point: FuncProcessPoint, options: Options) -> None:
    if options.visible_device_enable:
        point.set_init_param(_VISIBLE, True)
        tell_ignored({
            "visible_device_enable": "unless the node is on a device of a resource file: nobody hides CPUs"
        })
    node.add_process_point(point)
    cpus = options.resources.get("num_cpus", 0)
    if isinstance(cpus, (int, float)) and cpus > 0:
        node._impl.set_options(threads=max(1, int(cpus)))
