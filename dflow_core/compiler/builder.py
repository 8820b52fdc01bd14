"""FlowGraph to FlowModel: check, lower, run the passes, compile the nodes, join them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from dflow_core.compiler.batch_need import batch_faults
from dflow_core.compiler.cache import CompileCache
from dflow_core.compiler.check import Describer
from dflow_core.compiler.ir import IrGraph
from dflow_core.compiler.lower import lower
from dflow_core.compiler.nodes import NodeCompiler
from dflow_core.compiler.passes import (
    AssignEngines,
    Flatten,
    InsertBatchNodes,
    LoadModels,
    PassResult,
    PassSequence,
    Prune,
)
from dflow_core.compiler.relation import build_relation
from dflow_core.compiler.report import BuildReport
from dflow_core.errors import GraphError, PackagingError, PluginError
from dflow_core.graph import FlowGraph, option_faults
from dflow_core.model import GRAPH_OPTIONS, FlowModel, PneModel
from dflow_core.options import as_texts, normalize, resolve
from dflow_core.plugins import PluginRegistry
from dflow_core.spi import SPI_VERSION


class FlowModelBuilder:
    """Compiles graphs. Keeps nothing of them; may be used for several, also at once.

    Args:
        registry: Who gives what.
        options: Options of the session, by name (see `dflow_core.options`).
        cache: Where compiled models are kept; None compiles everything each time.
    """

    def __init__(
        self, registry: PluginRegistry, options: Mapping[str, object] | None = None, cache: CompileCache | None = None
    ) -> None:
        self._registry = registry
        self._session = dict(options or {})
        self._cache = cache

    def build(self, graph: FlowGraph) -> FlowModel:
        """Compile a graph; the graph itself is only read.

        Raises:
            GraphError: the graph has faults; holds all of them.
            PluginError: a plugin it needs is missing; says what to install.
            CompileError: nodes that cannot be compiled; names each with its cause.
        """
        return self.build_and_report(graph)[0]

    def build_and_report(
        self, graph: FlowGraph, kept: Mapping[str, PneModel] | None = None
    ) -> tuple[FlowModel, BuildReport]:
        """Compile a graph, and say what became of each node; see `build`.

        Args:
            graph: The graph.
            kept: What is compiled already, by name.
        """
        began = time.monotonic()
        result = self.prepare(graph)
        nodes = [replace(node, compiled=(kept or {}).get(node.name, node.compiled)) for node in result.graph.nodes]
        version = _dflow_version()
        compiler = NodeCompiler(self._registry, self._session, self._cache, version)
        options = resolve(self._session, graph.options)
        models, reports = compiler.compile(nodes, options.graph_key or graph.name)
        engines = {node.engine: self._registry.engine(node.engine).version for node in result.graph.nodes}
        changes = list(result.changed)
        model = FlowModel(
            graph.name,
            {model.name: model for model in models},
            build_relation(result.graph),
            self._saved(graph, changes),
            as_texts(options),
            {"dflow": version, "spi": str(SPI_VERSION)} | {f"engine {name}": v for name, v in sorted(engines.items())}
            | {GRAPH_OPTIONS: " ".join(normalize(graph.options, "graph"))},
        )
        return model, BuildReport(tuple(reports), tuple(changes), time.monotonic() - began)

    def prepare(self, graph: FlowGraph) -> PassResult:
        """Everything before compiling: the checked graph with built-in nodes, flat, each node with its engine.

        Raises:
            GraphError: the graph has faults; holds all of them.
            PluginError: a plugin it needs is missing.
        """
        options = resolve(self._session, graph.options)
        describe = Describer(self._registry, graph, self._session)
        faults = list(graph.faults(describe))
        faults += option_faults(graph, options)
        if faults:
            raise GraphError(graph.name, faults)
        lowered: IrGraph = lower(graph, describe=describe)
        passes = PassSequence([
            Prune(), LoadModels(), InsertBatchNodes(), Flatten(), Prune(), AssignEngines(self._registry, self._session),
        ])
        result = passes.run(lowered)
        stalls = batch_faults(result.graph, options.max_in_flight)
        if stalls:
            raise GraphError(graph.name, stalls)
        return result

    def _saved(self, graph: FlowGraph, changes: list[str]) -> bytes:
        """The graph for drawing and inspection; a graph that cannot be written still runs."""
        from dflow_core.graph.serde import serialize_graph

        try:
            return serialize_graph(graph, self._registry.point_kinds)
        except (PackagingError, PluginError) as error:
            changes.append(f"the model holds no graph to look at: {error.message}")
            return b""


def _dflow_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("dflow-core")
    except metadata.PackageNotFoundError:
        return "0+unknown"
