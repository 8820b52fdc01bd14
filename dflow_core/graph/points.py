"""The kinds of process points the core knows."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

from dflow_core.errors import OptionError, UsageError
from dflow_core.graph.arguments import absolute_path, check_type, optional_path, texts
from dflow_core.graph.flow_graph import FlowGraph
from dflow_core.graph.node import ProcessPoint
from dflow_core.types import DataType, FuncSpec


class Framework(enum.Enum):
    """What wrote a model file."""

    TENSORFLOW = 1
    ONNX = 2
    MINDSPORE = 3


class GraphProcessPoint(ProcessPoint):
    """A model file. It is read when the graph is compiled, not here.

    Args:
        framework: What wrote the file.
        graph_file: Path of the file, or its bytes. A relative path counts from the current folder at this moment.
        load_params: What the framework's reader is told, such as `{"input_data_names": "x,y"}`.
        compile_config_path: JSON file with input shapes and types; "" for none.
        name: Name of the point; a node made from it is called like the file if nobody says.
        settings: What the engine is told, such as `runtime="openvino"` or `precision="bf16"`.

    Raises:
        UsageError: an argument of the wrong type.
    """

    kind: ClassVar[str] = "graph"

    def __init__(
        self,
        framework: Framework,
        graph_file: str | os.PathLike[str] | bytes,
        load_params: Mapping[str, str] | None = None,
        compile_config_path: str | os.PathLike[str] = "",
        name: str | None = None,
        **settings: str,
    ) -> None:
        super().__init__(name)
        check_type(framework, Framework, "df.Framework.ONNX or another member as framework")
        self.framework = framework
        is_bytes = isinstance(graph_file, (bytes, bytearray, memoryview))
        self.graph_bytes = bytes(graph_file) if isinstance(graph_file, (bytes, bytearray, memoryview)) else b""
        self.graph_file = "" if is_bytes else absolute_path(graph_file, "graph_file")
        self.load_params = texts(load_params or {}, "load_params")
        self.compile_config_path = optional_path(compile_config_path, "compile_config_path")
        self.settings = texts(settings, "settings")

    @property
    def is_one_to_one(self) -> bool:
        """Models give one set of outputs for one set of inputs."""
        return True

    def caption(self) -> str:
        """The framework."""
        return f"{self.framework.name.lower()} model"

    def node_name(self) -> str:
        """The point's name if it was given one, else the file's without its ending."""
        stem = os.path.splitext(os.path.basename(self.graph_file))[0]
        printable = "".join(c for c in stem if c.isprintable())[:64]
        return self.name if self.name != type(self).__name__ else printable or "FlowNode"


@dataclass(frozen=True, slots=True)
class FuncPackage:
    """User code made ready to travel.

    Args:
        package: The pickled code.
        functions: Its functions, with the ports they own.
        input_num, output_num: Ports of all functions together.
        name: What a node made from it is called if nobody says.
        attrs: Facts about it as text, such as its source file and `fingerprint`.
        invoked: What it may call while it works, by name.
    """

    package: bytes
    functions: tuple[FuncSpec, ...]
    input_num: int
    output_num: int
    name: str
    attrs: Mapping[str, str] = field(default_factory=dict)
    invoked: Mapping[str, ProcessPoint] = field(default_factory=dict)


PACKER_ATTRIBUTE = "__dflow_packer__"
"""Where decorators leave the function that makes a FuncPackage of the decorated object (or of the class around it)."""


class FuncProcessPoint(ProcessPoint):
    """User code, or a ready-made function that a plugin registered.

    Args:
        compile_config_path: JSON file of a C++ function project; "" for none.
        name: Name of the point.
        package: Pickled user code.
        functions: Its functions, with the ports they own.
        builtin: Name of a registered function, such as `_BuiltIn_CountBatch`.
        py_func: A decorated function or class, instead of `package` and `functions`.
        attrs: Facts about the code as text (source file, fingerprint); they take part in cache keys.

    Raises:
        UsageError: an argument of the wrong type, or a `py_func` that carries no decorator.
        PackagingError: the code cannot travel.
    """

    kind: ClassVar[str] = "func"

    def __init__(
        self,
        compile_config_path: str | os.PathLike[str] = "",
        name: str | None = None,
        *,
        package: bytes = b"",
        functions: Sequence[FuncSpec] = (),
        builtin: str = "",
        py_func: object = None,
        attrs: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name)
        self.compile_config_path = optional_path(compile_config_path, "compile_config_path")
        self.builtin = builtin
        self.package = package
        self.attrs = texts(attrs or {}, "attrs")
        self.init_params: dict[str, object] = {}
        self._invoked: dict[str, ProcessPoint] = {}
        self._functions = tuple(functions)
        if py_func is not None:
            packed = _packer_of(py_func)(py_func)
            self.package, self._functions = packed.package, packed.functions
            self._invoked.update(packed.invoked)
            self.attrs |= packed.attrs
            self.name = packed.name if name is None else name

    @property
    def functions(self) -> tuple[FuncSpec, ...]:
        """Its functions and the ports they own."""
        return self._functions

    @property
    def invoked(self) -> Mapping[str, ProcessPoint]:
        """What `add_invoked_closure` was called with."""
        return MappingProxyType(self._invoked)

    @property
    def is_one_to_one(self) -> bool:
        """Functions give one set of outputs for one set of inputs; nothing is known of ready-made ones."""
        return bool(self.package)

    def caption(self) -> str:
        """Whether it is user code, and the name of a ready-made function."""
        return self.builtin or "function"

    def node_name(self) -> str:
        """The point's name if it was given one, else the ready-made function's."""
        return self.name if self.name != type(self).__name__ else self.builtin or "FlowNode"

    def set_init_param(self, name: str, value: object) -> None:
        """Set a parameter the function reads when it is initialised; setting it again replaces it.

        Args:
            name: Name of the parameter.
            value: A str, bool, int, float or DataType, a list of one of them, or a list of lists of int.

        Raises:
            OptionError: another type of value.
        """
        check_type(name, str, "a text as name of an init parameter")
        if not is_init_value(value):
            raise OptionError(
                f"init parameter {name!r}: expected str, bool, int, float, DataType or a list of one of them, "
                f"got {value!r}",
                hint="give other things to the constructor of a @pyflow class: Cls.fnode(thing)",
            )
        self.init_params[name] = list(value) if isinstance(value, (list, tuple)) else value

    def add_invoked_closure(self, name: str, graph_point: ProcessPoint | FlowGraph) -> None:
        """Give the function a graph or a model that it calls while it works (runtime-semantics.md section 18).

        Each instance of the function has instances of its own of everything in there.

        Args:
            name: What the function calls it by; unique in this point.
            graph_point: A GraphProcessPoint, FlowGraphProcessPoint or ModelProcessPoint; a FlowGraph stands for a point
                around it.

        Raises:
            UsageError: another kind of point, or a name that is taken or cannot be one.
        """
        check_type(name, str, "a text as name of an invoked graph")
        if not name or not name.isprintable() or "/" in name:
            raise UsageError(f"expected a name of printable characters without '/', got {name!r}")
        point = _callable_point(name, graph_point)
        if name in self._invoked:
            raise UsageError(f"{self.name!r} has an invoked graph called {name!r} already", hint="choose another name")
        self._invoked[name] = point

    def exchange_invoked(self, name: str, graph_point: ProcessPoint | FlowGraph) -> ProcessPoint:
        """Let the function call something else by a name; gives what it called before.

        Raises:
            UsageError: another kind of point than `add_invoked_closure` takes.
        """
        point, old = _callable_point(name, graph_point), self._invoked[name]
        self._invoked[name] = point
        return old


class FlowGraphProcessPoint(ProcessPoint):
    """A graph as one node of another graph.

    Args:
        flow_graph: The graph inside; its inputs and outputs, in order, are the ports.
        name: Name of the point; a node made from it is called like the graph if nobody says.
    """

    kind: ClassVar[str] = "flow_graph"

    def __init__(self, flow_graph: FlowGraph, name: str | None = None) -> None:
        super().__init__(name)
        check_type(flow_graph, FlowGraph, "a FlowGraph")
        self.flow_graph = flow_graph

    @property
    def nested(self) -> FlowGraph:
        """The graph inside."""
        return self.flow_graph

    def caption(self) -> str:
        """That it is a graph."""
        return "graph"

    def node_name(self) -> str:
        """The point's name if it was given one, else the graph's."""
        return self.name if self.name != type(self).__name__ else self.flow_graph.name


class ModelProcessPoint(ProcessPoint):
    """A compiled model file (`.om`), loaded without compiling.

    Args:
        path: The file. A relative path counts from the current folder at this moment.
        name: Name of the point.
    """

    kind: ClassVar[str] = "model"

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        super().__init__(name)
        self.path = absolute_path(path, "path")

    def caption(self) -> str:
        """That it is a compiled model."""
        return "compiled model"

    def node_name(self) -> str:
        """The point's name if it was given one, else the file's without its ending."""
        stem = os.path.splitext(os.path.basename(self.path))[0]
        return self.name if self.name != type(self).__name__ else stem[:64] or "FlowNode"


def _callable_point(name: str, given: ProcessPoint | FlowGraph) -> ProcessPoint:
    """What a function can call by a name.

    Raises:
        UsageError: it is something else.
    """
    point = FlowGraphProcessPoint(given) if isinstance(given, FlowGraph) else given
    if not isinstance(point, (GraphProcessPoint, FlowGraphProcessPoint, ModelProcessPoint)):
        raise UsageError(
            f"invoked graph {name!r}: expected a GraphProcessPoint, FlowGraphProcessPoint or ModelProcessPoint, "
            f"got {point!r}",
            hint="put a function into a graph: FlowGraphProcessPoint(FlowGraph([...]))",
        )
    return point


def is_init_value(value: object) -> bool:
    """Whether a value can be an init parameter."""
    plain = (str, bool, int, float, DataType)
    if isinstance(value, plain):
        return not isinstance(value, int) or -(2**63) <= value < 2**63
    if not isinstance(value, (list, tuple)):
        return False
    kinds = {type(item) for item in value}
    if kinds <= {list, tuple}:
        return all(type(number) is int and is_init_value(number) for row in value for number in row)
    return len(kinds) == 1 and kinds <= set(plain) and all(is_init_value(item) for item in value)


def _packer_of(py_func: object) -> Callable[[object], FuncPackage]:
    packer = getattr(py_func, PACKER_ATTRIBUTE, None)
    if packer is None and isinstance(py_func, type):
        members = (getattr(py_func, name, None) for name in dir(py_func))
        packer = next((p for m in members if (p := getattr(m, PACKER_ATTRIBUTE, None)) is not None), None)
    if packer is None:
        raise UsageError(
            f"py_func: {py_func!r} carries no dflow decorator",
            hint="put @df.pyflow on the function or class, or @proc_wrapper('i0,o0') on its methods",
        )
    found: Callable[[object], FuncPackage] = packer
    return found
