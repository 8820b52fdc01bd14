"""Loads UdfModels in an executor."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_core.errors import CompileError, PluginError
from dflow_core.model import PneModel, UdfModel
from dflow_core.spi import FlowFunc, WorkerContext
from dflow_core.udf import PythonFunc, python_funcs, unpack


def load(model: PneModel, context: WorkerContext) -> Sequence[FlowFunc]:
    """One FlowFunc for each function of the model.

    Raises:
        PluginError: if it names a built-in UDF nobody registered.
        CompileError: if the package holds something else than a function.
    """
    if not isinstance(model, UdfModel):
        raise CompileError(f"engine UDF cannot run a {type(model).__name__}", node=model.name)
    if model.builtin:
        if context.udf_factory is None:
            raise PluginError(f"built-in UDF {model.builtin} needs the plugin registry", node=model.name)
        return [context.udf_factory(model.builtin)]
    package = unpack(model.package)
    if not isinstance(package, PythonFunc):
        raise CompileError(f"the package holds a {type(package).__name__}, not a function", node=model.name)
    return python_funcs(package, model.functions)
