"""All faults of a graph, with what plugins can tell of it, without compiling anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from dflow_core.compiler.batch_need import batch_faults
from dflow_core.compiler.builtins import COUNT_BATCH, TIME_BATCH, builtin_entry
from dflow_core.compiler.lower import lower
from dflow_core.compiler.passes import Flatten, InsertBatchNodes, PassSequence
from dflow_core.compiler.resolved import ResolvedOptions
from dflow_core.errors import DflowError, Fault, ModelFormatError, OptionError, PluginError
from dflow_core.graph import (
    FlowGraph,
    FlowGraphProcessPoint,
    FlowNode,
    FuncProcessPoint,
    ModelProcessPoint,
    ProcessPoint,
    TimeBatch,
    option_faults,
)
from dflow_core.model import inspect_om
from dflow_core.options import resolve
from dflow_core.plugins import PluginRegistry
from dflow_core.spi import Engine, PointIO
from dflow_core.types import DataType, TensorSpec

_MAX_DEPTH = 16


class Describer:
    """Says what process points take and give, as graph validation asks for it; each point is looked at once.

    Args:
        registry: Who gives what.
        graph: The graph; nodes, the graphs they lie in and the session may name engines.
        session: Options of the session.

    Raises:
        OptionError: an option of the graph, or of one inside it, is unknown or has a value it cannot have.
    """

    def __init__(self, registry: PluginRegistry, graph: FlowGraph, session: Mapping[str, object]) -> None:
        self._registry = registry
        self._wanted: dict[int, str] = {}
        self._options: dict[int, Mapping[str, str]] = {}
        self._engines: dict[str, Engine] = {}
        self._known: dict[int, PointIO | DflowError | None] = {}
        self.plugin_errors: dict[str, PluginError] = {}
        in_force = ResolvedOptions(session)
        for node, options, _ in walk(graph):
            default = in_force.of(options).engine
            if node.point is not None:
                self._options[id(node.point)] = in_force.texts_of(options)
                follows = not isinstance(node.point, FuncProcessPoint)
                self._wanted[id(node.point)] = node.engine or (default if follows else "")
                self._wanted |= {id(point): default for point in node.point.invoked.values()}

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
        entry = self._registry.engine_for(point, self._wanted.get(id(point), ""), self._options.get(id(point)))
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
    try:
        describe = Describer(registry, graph, session or {})
    except OptionError as error:
        return (Fault("option", graph.name, "", error.message, error.hint or ""), *graph.faults())
    faults = list(graph.faults(describe))
    for missing in describe.plugin_errors.values():
        faults.append(Fault("plugin", missing.node or graph.name, "", missing.message, missing.hint or ""))
    for node, _, scope in walk(graph):
        faults += _builtin_faults(node, registry, scope)
    options = resolve(session, graph.options)
    faults += option_faults(graph, options)
    limit = options.max_in_flight
    if limit and not faults:
        with contextlib.suppress(DflowError):  # what stands in its way is told when it is compiled
            flat = PassSequence([InsertBatchNodes(), Flatten()]).run(lower(graph, describe=describe)).graph
            faults += batch_faults(flat, limit)
    return tuple(dict.fromkeys(faults))


def walk(
    graph: FlowGraph, options: Mapping[str, object] | None = None, scope: str = "", depth: int = 1
) -> Iterator[tuple[FlowNode, Mapping[str, object], str]]:
    """Every node, with the graph options in force for it and the scope before its name; down to the deepest allowed."""
    own = {**(options or {}), **graph.options}
    for node in graph.nodes:
        yield node, own, scope
        if isinstance(node.point, FlowGraphProcessPoint) and depth < _MAX_DEPTH:
            yield from walk(node.point.flow_graph, own, f"{scope}{node.name}/", depth + 1)
        for name, point in (node.point.invoked if node.point else {}).items():
            if isinstance(point, FlowGraphProcessPoint) and depth < _MAX_DEPTH:
                yield from walk(point.flow_graph, own, f"{scope}{node.name}/{name}/", depth + 1)


def _builtin_faults(node: FlowNode, registry: PluginRegistry, scope: str) -> list[Fault]:
    """Ready-made functions a node needs, its own and those that put its inputs together, and what they lack."""
    batches = [batch for port in range(node.input_num) for batch in node.batching(port)]
    try:
        if isinstance(node.point, FuncProcessPoint) and node.point.builtin:
            builtin_entry(node.point, registry)
        for batch in batches:
            registry.udf(TIME_BATCH if isinstance(batch, TimeBatch) else COUNT_BATCH)
    except (PluginError, OptionError) as error:
        kind = "plugin" if isinstance(error, PluginError) else "attribute"
        return [Fault(kind, scope + node.name, "", error.message, error.hint or "")]
    return []
