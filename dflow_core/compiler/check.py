"""All faults of a graph, with what engines can tell of the files in it, without compiling anything."""

from __future__ import annotations

from collections.abc import Mapping

from dflow_core.errors import DflowError, Fault, ModelFormatError, PluginError
from dflow_core.graph import FlowGraph, FuncProcessPoint, ModelProcessPoint, ProcessPoint
from dflow_core.model import inspect_om
from dflow_core.options import resolve
from dflow_core.plugins import PluginRegistry
from dflow_core.spi import Engine, PointIO
from dflow_core.types import DataType, TensorSpec


class Describer:
    """Says what process points take and give, as graph validation asks for it; each point is looked at once.

    Args:
        registry: Who gives what.
        graph: The graph whose nodes may name engines.
        session: Options of the session.
    """

    def __init__(self, registry: PluginRegistry, graph: FlowGraph, session: Mapping[str, object]) -> None:
        self._registry = registry
        self._wanted = {id(node.point): node.engine for node in graph.nodes if node.engine}
        self._default = resolve(session, graph.options).engine
        self._engines: dict[str, Engine] = {}
        self._known: dict[int, PointIO | DflowError | None] = {}
        self.plugin_errors: dict[str, PluginError] = {}

    def __call__(self, point: ProcessPoint, input_num: int, output_num: int) -> PointIO | None:
        """What the point takes and gives; None if unknown, or if its plugin is missing (see `plugin_errors`).

        Raises:
            DflowError: a file is missing or broken.
        """
        if id(point) not in self._known:
            self._known[id(point)] = self._looked_up(point)
        found = self._known[id(point)]
        if isinstance(found, DflowError):
            raise found
        return found

    def _looked_up(self, point: ProcessPoint) -> PointIO | DflowError | None:
        try:
            return self._described(point)
        except PluginError as error:
            self.plugin_errors.setdefault(error.message, error)
            return None
        except DflowError as error:
            return error

    def _described(self, point: ProcessPoint) -> PointIO | None:
        if isinstance(point, ModelProcessPoint):
            root = inspect_om(point.path).model.relation.root
            unknown = TensorSpec(DataType.UNDEFINED)
            return PointIO((unknown,) * len(root.inputs), (unknown,) * len(root.outputs))
        wanted = self._wanted.get(id(point), "" if isinstance(point, FuncProcessPoint) else self._default)
        entry = self._registry.engine_for(point, wanted)
        if entry.id not in self._engines:
            self._engines[entry.id] = entry.engine()
        try:
            return self._engines[entry.id].describe(point)
        except DflowError:
            raise
        except Exception as cause:
            text = f"engine {entry.id!r} cannot read it: {type(cause).__name__}: {cause}"
            raise ModelFormatError(text) from cause


def check_graph(
    graph: FlowGraph, registry: PluginRegistry, session: Mapping[str, object] | None = None
) -> tuple[Fault, ...]:
    """Everything that is wrong with a graph; missing plugins are faults of kind `plugin`.

    Args:
        graph: The graph.
        registry: Who gives what.
        session: Options of the session.
    """
    describe = Describer(registry, graph, session or {})
    faults = list(graph.faults(describe))
    for error in describe.plugin_errors.values():
        faults.append(Fault("plugin", error.node or graph.name, "", error.message, error.hint or ""))
    return tuple(faults)
