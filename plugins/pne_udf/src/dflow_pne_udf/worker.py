"""Loads UdfModels in an executor: packaged Python functions, ready-made functions, and built C++ libraries."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence

from dflow_core.errors import CompileError, PluginError
from dflow_core.model import PneModel, UdfModel
from dflow_core.spi import FlowFunc, LibraryFunc, NodeWorker, WorkerContext
from dflow_core.udf import PythonFunc, python_funcs, unpack

_GZIP = b"\x1f\x8b"


def load(model: PneModel, context: WorkerContext) -> Sequence[FlowFunc] | NodeWorker:
    """One FlowFunc for each function of a Python model; a worker of its own for C++ functions.

    Raises:
        PluginError: if it names a built-in UDF nobody registered.
        CompileError: if the package holds something else than a function.
    """
    if not isinstance(model, UdfModel):
        raise CompileError(f"engine UDF cannot run a {type(model).__name__}", node=model.name)
    if model.builtin:
        if context.udf_factory is None:
            raise PluginError(f"built-in UDF {model.builtin} needs the plugin registry", node=model.name)
        func = context.udf_factory(model.builtin)
        return _shipped(model, func, context) if isinstance(func, LibraryFunc) else [func]
    if model.package.startswith(_GZIP):
        return _built(model, context)
    package = unpack(model.package)
    if not isinstance(package, PythonFunc):
        raise CompileError(f"the package holds a {type(package).__name__}, not a function", node=model.name)
    return python_funcs(package, model.functions)


def _built(model: UdfModel, context: WorkerContext) -> NodeWorker:
    """A library that travelled as a package."""
    from dflow_pne_udf import sdk_dir
    from dflow_pne_udf.building.unpacked import unpacked_folder, unpacked_library
    from dflow_pne_udf.engine import CHECK, CPU_NUM, store_folder
    from dflow_pne_udf.native import CppNode, LibraryPlace

    def place() -> LibraryPlace:
        kind, store = sdk_dir.resource_type(), store_folder(context.options)
        folder, end = unpacked_folder(model.package, kind, store), None
        library = unpacked_library(folder) if store else None
        if library is None:
            library, end = _unpack(model.package, kind, store)
        cpu = model.params.get(CPU_NUM)
        threads = cpu if isinstance(cpu, int) else 0
        checks = context.options.get(CHECK) == "1"
        return LibraryPlace(library, os.path.dirname(library), model.functions, threads, end, checks)

    return CppNode(model, place, context.report)


def _unpack(package: bytes, resource_type: str, store: str) -> tuple[str, Callable[[], None] | None]:
    """The library of a package that is not unpacked yet, and how to remove it again if nothing may be kept."""
    from dflow_pne_udf.building.release import open_release, unpack_release
    from dflow_pne_udf.building.scratch import Scratch

    target = open_release(package).target_bin
    if store:
        return str(unpack_release(package, resource_type, store) / target), None
    scratch = Scratch()
    try:
        return str(unpack_release(package, resource_type, scratch.folder) / target), scratch.remove
    except BaseException:
        scratch.remove()
        raise


def _shipped(model: UdfModel, func: LibraryFunc, context: WorkerContext) -> NodeWorker:
    """A library that came with an installed package; a node of it runs one function with all ports."""
    from dflow_pne_udf.engine import CHECK
    from dflow_pne_udf.native import CppNode, LibraryPlace

    checks = context.options.get(CHECK) == "1"
    functions = (dataclasses.replace(model.functions[0], name=func.function),)
    place = LibraryPlace(func.library, os.path.dirname(func.library), functions, checks_inputs=checks)
    return CppNode(model, lambda: place, context.report)
