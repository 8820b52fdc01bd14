"""Turns function process points into UdfModels. For Python functions there is nothing to compile."""

from __future__ import annotations

from dflow_core.errors import CompileError
from dflow_core.graph import FuncProcessPoint, ProcessPoint
from dflow_core.model import UdfModel
from dflow_core.spi import CompileContext, Engine, PointIO


class UdfEngine(Engine):
    """The engine for user functions.

    Args:
        engine_id: Id it is registered under.
    """

    def __init__(self, engine_id: str) -> None:
        self.id = engine_id

    def describe(self, point: ProcessPoint) -> PointIO | None:
        return None

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        # Packaging a Python function is quicker than reading it back from the cache.
        return b""

    def compile(self, point: ProcessPoint, context: CompileContext) -> UdfModel:
        func = _function_point(point, context.node)
        return UdfModel(
            name=context.node, engine=self.id, functions=tuple(func.functions), package=func.package,
            builtin=func.builtin, params=dict(func.init_params),
        )


def _function_point(point: ProcessPoint, node: str) -> FuncProcessPoint:
    if not isinstance(point, FuncProcessPoint):
        raise CompileError(f"engine UDF cannot compile a {point.kind} process point", node=node)
    if point.compile_config_path and not (point.package or point.builtin):
        raise CompileError(
            "functions built from a compile config (C++) are not supported by this version of dflow-pne-udf",
            node=node, hint="use a Python function, or a later version",
        )
    if not point.package and not point.builtin:
        raise CompileError("the function process point holds no function", node=node)
    return point
