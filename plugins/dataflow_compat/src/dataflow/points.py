"""Process points: model files, functions, and graphs to be invoked."""

from __future__ import annotations

import enum
from typing import TypeAlias

import numpy as np

from dataflow.data_type import DType, core_type_of
from dataflow.flow_graph import FlowGraph
from dataflow.nodes import FlowNode
from dataflow.packages import package_of
from dataflow.point_base import Point
from dataflow.utils.arguments import assert_args_type
from dataflow.utils.errors import DfException
from dataflow.utils.name_scope import name_scope
from dataflow.workspace import python_workspace, write_workspace
from dflow_core import graph as core
from dflow_core.errors import DflowError
from dflow_core.types import DataType

__all__ = [
    "FlowGraphProcessPoint",
    "Framework",
    "FuncProcessPoint",
    "GraphProcessPoint",
    "init_value",
]

INT64 = range(-(2**63), 2**63)


class Framework(enum.Enum):
    """What wrote a model file."""

    TENSORFLOW = 1
    ONNX = 2
    MINDSPORE = 3


class GraphProcessPoint(Point):
    """A model file; it is read when the graph is built, at the first feed.

    Args:
        framework: What wrote it.
        graph_file: Its path.
        load_params: What its reader is told, such as `{"input_data_names": "x,y"}`.
        compile_config_path: JSON file with input shapes and build options; "" for none.
        name: Name of the process point.

    Raises:
        DfException: an argument of another type.
    """

    @assert_args_type(object, Framework, str, dict[str, str] | None, str, str | None)
    def __init__(
        self, framework: Framework, graph_file: str, load_params: dict[str, str] | None = None,
        compile_config_path: str = "", name: str | None = None,
    ) -> None:
        self.framework = framework
        self.graph_file = graph_file
        self.load_params = {} if load_params is None else load_params
        self.compile_config_path = compile_config_path
        with name_scope(name, "GraphProcessPoint") as unique:
            pass
        try:
            self.core_point = core.GraphProcessPoint(
                core.Framework[framework.name], graph_file, self.load_params, compile_config_path, unique
            )
        except DflowError as error:
            raise DfException(error) from error
        super().__init__(self.core_point, unique)

    def fnode(self, input_num: int, output_num: int, name: str | None = None) -> FlowNode:
        """A node that runs the model.

        Args:
            input_num, output_num: Ports of the node.
            name: Name of the node.
        """
        node = FlowNode(input_num, output_num, name)
        node.add_process_point(self)
        return node


class FlowGraphProcessPoint(Point):
    """A graph that a function invokes; it must not have been fed yet.

    Args:
        flow_graph: The graph.
        compile_config_path: Kept, as upstream; a graph has nothing to be told.
        name: Name of the process point.
    """

    def __init__(self, flow_graph: FlowGraph, compile_config_path: str = "", name: str | None = None) -> None:
        if not isinstance(flow_graph, FlowGraph) or flow_graph.was_fed:
            raise TypeError("flow_graph must be a FlowGraph that was not fed yet")
        self.flow_graph = flow_graph
        self.compile_config_path = compile_config_path
        with name_scope(name, "FlowGraphProcessPoint") as unique:
            pass
        self.core_point = core.FlowGraphProcessPoint(flow_graph.core_graph, unique)
        super().__init__(self.core_point, unique)


class FuncProcessPoint(Point):
    """A function: a C++ project, a class with `@proc_wrapper` methods, or what `@pyflow` made.

    Args:
        compile_config_path: JSON file of the function project; not looked at when `py_func` is given.
        name: Name of the process point.
        py_func: The class, or the object that `@pyflow` made.
        workspace_dir: Folder where files about a Python function are written; `./<class name>_ws` if not given.

    Raises:
        TypeError: a path or name that is no text.
        DfException: 564000 for a class without `@proc_wrapper` methods.
    """

    def __init__(
        self, compile_config_path: str | None = None, name: str | None = None, py_func: object = None,
        workspace_dir: str | None = None,
    ) -> None:
        for what, value in (("compile_config_path", compile_config_path), ("name", name)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{what} must be a str, got {value!r}")
        with name_scope(name, "FuncProcessPoint") as unique:
            pass
        self.py_func = py_func
        self.compile_config_path = compile_config_path
        package = self._package(py_func, workspace_dir)
        try:
            if package is not None:
                point = core.FuncProcessPoint(
                    name=unique, package=package.package, functions=package.functions, attrs=package.attrs
                )
            else:
                point = core.FuncProcessPoint(compile_config_path or "", unique)
        except DflowError as error:
            raise DfException(error) from error
        self._func = point
        super().__init__(point, unique)

    def _package(self, py_func: object, workspace_dir: str | None) -> core.FuncPackage | None:
        """The Python function, ready to travel; None for a C++ project."""
        if py_func is None:
            return python_workspace(self.compile_config_path) if self.compile_config_path else None
        package = package_of(py_func)
        self.compile_config_path = str(write_workspace(py_func, package, workspace_dir))
        return package

    def set_init_param(self, attr_name: str, attr_value: object) -> None:
        """Set what the function reads when it is initialised; setting it again replaces it.

        Args:
            attr_name: Name of the parameter.
            attr_value: A str, bool, int, float or DType, a list of one of them, or a list of lists of int.

        Raises:
            TypeError: anything else.
        """
        if not isinstance(attr_name, str):
            raise TypeError(f"attr_name must be a str, got {attr_name!r}")
        try:
            self._func.set_init_param(attr_name, init_value(attr_value))
        except DflowError as error:
            raise TypeError(str(error)) from error

    def add_invoked_closure(
        self, graph_key: str, flow_graph_pp: Invoked | None = None, *, graph_pp: Invoked | None = None
    ) -> None:
        """Register what the function may call by `run_flow_model(graph_key, ...)`.

        Args:
            graph_key: Its key.
            flow_graph_pp: A model or a graph; `graph_pp` is another name of the parameter.

        Raises:
            DfException: something else, or a key that is taken.
        """
        pp = graph_pp if flow_graph_pp is None else flow_graph_pp
        if not isinstance(graph_key, str) or not isinstance(pp, (GraphProcessPoint, FlowGraphProcessPoint)):
            raise DfException("a closure needs a key and a GraphProcessPoint or FlowGraphProcessPoint")
        try:
            self._func.add_invoked_closure(graph_key, pp.core_point)
        except DflowError as error:
            raise DfException(error) from error


Invoked: TypeAlias = GraphProcessPoint | FlowGraphProcessPoint


def init_value(value: object) -> str | bool | int | float | DataType | list[object]:
    """An init parameter as the core takes it.

    Raises:
        TypeError: nothing a parameter can be.
    """
    if isinstance(value, DType):
        return core_type_of(value)
    if isinstance(value, list):
        return [init_value(item) for item in value]
    if isinstance(value, float):
        return float(np.float32(value))  # parameters are floats of 32 bits
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and value in INT64:
        return value
    raise TypeError(f"an init parameter cannot be {value!r}")
