"""Ready-made functions: whether they are there, and know the parameters they are given."""

from __future__ import annotations

from dflow_core.errors import OptionError
from dflow_core.graph import FuncProcessPoint
from dflow_core.options import nearest
from dflow_core.plugins import PluginRegistry
from dflow_core.spi import UdfEntry

TIME_BATCH = "_BuiltIn_TimeBatch"
COUNT_BATCH = "_BuiltIn_CountBatch"


def builtin_entry(point: FuncProcessPoint, registry: PluginRegistry) -> UdfEntry:
    """The ready-made function a point names.

    Raises:
        PluginError: no plugin gives it.
        OptionError: it does not know a parameter, or needs one that is not given.
    """
    entry = registry.udf(point.builtin)
    for name in point.init_params:
        if name not in entry.parameters:
            raise OptionError(f"{point.builtin} has no parameter {name!r}", hint=nearest(name, entry.parameters))
    missing = [name for name, default in entry.parameters.items() if default is None and name not in point.init_params]
    if missing:
        raise OptionError(f"{point.builtin} needs parameter {', '.join(missing)}", hint="use set_init_param")
    return entry
