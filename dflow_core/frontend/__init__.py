"""The face users see: decorators, the runnable FlowGraph, and the default session."""

from dflow_core.frontend.decorators import builtin_node, method, pyflow
from dflow_core.frontend.default_session import alloc_tensor, finalize, init
from dflow_core.frontend.each import map_each
from dflow_core.frontend.flow_class import init_wrapper, proc_wrapper
from dflow_core.frontend.flow_graph import FlowGraph

__all__ = [
    "FlowGraph",
    "alloc_tensor",
    "builtin_node",
    "finalize",
    "init",
    "init_wrapper",
    "map_each",
    "method",
    "proc_wrapper",
    "pyflow",
]
