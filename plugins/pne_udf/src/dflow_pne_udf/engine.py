"""Turns function process points into UdfModels: packaged Python functions as they are, C++ projects built."""

from __future__ import annotations

import os
from collections.abc import Mapping

from dflow_core.errors import CompileError, OptionError
from dflow_core.graph import FuncProcessPoint, ProcessPoint
from dflow_core.model import UdfModel
from dflow_core.spi import CompileContext, Engine, PointIO
from dflow_core.types import DataType, TensorSpec
from dflow_pne_udf.progress import Progress

CMAKE = "plugin.udf.cmake"
CPU_NUM = "__cpu_num"
HEAVY_LOAD = "_dflow_heavy_load"
VISIBLE = "_dflow_visible_device_enable"
TIMEOUT = "plugin.udf.build_timeout"
CHECK = "plugin.udf.check_inputs"
_UNKNOWN = TensorSpec(DataType.UNDEFINED)


class UdfEngine(Engine):
    """The engine for user functions.

    Args:
        engine_id: Id it is registered under.
    """

    def __init__(self, engine_id: str) -> None:
        self.id = engine_id
        self._progress = Progress()

    def describe(self, point: ProcessPoint) -> PointIO | None:
        if not _is_project(point):
            return None
        from dflow_pne_udf.config import read_config

        assert isinstance(point, FuncProcessPoint)
        config = read_config(point.compile_config_path)
        return PointIO((_UNKNOWN,) * config.input_num, (_UNKNOWN,) * config.output_num)

    def cache_key(self, point: ProcessPoint, context: CompileContext) -> bytes:
        # Packaging a Python function is quicker than reading it back from the cache; built libraries are kept apart,
        # because only a build tells what it has read.
        return b""

    def compile(self, point: ProcessPoint, context: CompileContext) -> UdfModel:
        if not isinstance(point, FuncProcessPoint):
            raise CompileError(f"engine UDF cannot compile a {point.kind} process point", node=context.node)
        if _is_project(point):
            return self._built(point, context)
        if not point.package and not point.builtin:
            raise CompileError("the function process point holds no function", node=context.node)
        return UdfModel(
            name=context.node, engine=self.id, functions=tuple(point.functions), package=point.package,
            builtin=point.builtin, params=dict(point.init_params),
        )

    def _built(self, point: FuncProcessPoint, context: CompileContext) -> UdfModel:
        from dflow_pne_udf.building.builder import Builder, check_registered
        from dflow_pne_udf.building.release import open_release
        from dflow_pne_udf.config import read_config

        config = read_config(point.compile_config_path)
        inputs, outputs = (_UNKNOWN,) * config.input_num, (_UNKNOWN,) * config.output_num
        # As upstream has it, a function can ask for these parameters too.
        params = dict(point.init_params) | ({CPU_NUM: config.cpu} if config.cpu else {})
        params |= {HEAVY_LOAD: True} if config.heavy_load else {}
        params |= {VISIBLE: True} if config.visible_device_enable else {}
        if config.is_builtin:
            name = config.functions[0].name
            return UdfModel(
                name=context.node, engine=self.id, inputs=inputs, outputs=outputs, builtin=name, params=params
            )
        builder = Builder(
            store_folder(context.options), context.options.get(CMAKE, ""), build_limit(context.options),
            context.cancelled, context.report, self._progress,
        )
        package = builder.package(config)
        release = open_release(package)
        check_registered(tuple(f.name for f in config.functions), release, point.compile_config_path)
        if release.problem:
            context.report(f"{config.target_bin} does not load here: {release.problem}")
        return UdfModel(
            name=context.node, engine=self.id, inputs=inputs, outputs=outputs, functions=config.functions,
            package=package, params=params,
        )


def store_folder(options: Mapping[str, str]) -> str:
    """Where built packages are kept; "" if nothing is to be kept."""
    folder = options.get("cache_dir", "")
    return os.path.join(folder, "udf") if folder and options.get("cache", "1") not in ("0", "False", "false") else ""


def build_limit(options: Mapping[str, str]) -> float:
    """Seconds a step of a build may take.

    Raises:
        OptionError: the option is no number above 0.
    """
    text = options.get(TIMEOUT, "600")
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise OptionError(f"option {TIMEOUT}: expected seconds above 0, got {text!r}")
    return limit


def _is_project(point: ProcessPoint) -> bool:
    return isinstance(point, FuncProcessPoint) and bool(point.compile_config_path) and not (
        point.package or point.builtin
    )
