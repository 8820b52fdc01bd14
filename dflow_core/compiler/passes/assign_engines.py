"""Every node gets the engine that compiles and runs it; nothing falls back quietly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dflow_core.compiler.builtins import builtin_entry
from dflow_core.compiler.ir import IrGraph, IrNode
from dflow_core.compiler.passes.base import Pass, PassResult
from dflow_core.compiler.resolved import ResolvedOptions
from dflow_core.errors import OptionError, PluginError
from dflow_core.graph import FuncProcessPoint
from dflow_core.plugins import PluginRegistry
from dflow_core.types import FuncSpec


class AssignEngines(Pass):
    """Asks the registry: the engine the node, its graph or the session wants, else the best that takes the point.

    Args:
        registry: Who gives what.
        session: Options of the session.
    """

    name = "assign_engines"

    def __init__(self, registry: PluginRegistry, session: Mapping[str, object]) -> None:
        self._registry = registry
        self._in_force = ResolvedOptions(session)

    def requires(self, graph: IrGraph) -> str | None:
        left = [node.name for node in graph.nodes if node.body is not None]
        return f"graphs are left inside {', '.join(left)}" if left else None

    def apply(self, graph: IrGraph) -> PassResult:
        nodes, problems = [], []
        for node in graph.nodes:
            try:
                nodes.append(self._assigned(node))
            except PluginError as error:
                problems.append(error)
                error.node = node.name
        if len(problems) == 1:
            raise problems[0]
        if problems:
            text = f"{len(problems)} nodes have no engine:"
            raise PluginError("\n".join([text, *(f"  {i}. {e}" for i, e in enumerate(problems, 1))])) from problems[0]
        changed = tuple(f"{node.name}: engine {node.engine}" for node in nodes)
        return PassResult(replace(graph, nodes=tuple(nodes)), changed)

    def ensures(self, graph: IrGraph) -> str | None:
        left = [node.name for node in graph.nodes if not node.engine]
        return f"no engine for {', '.join(left)}" if left else None

    def _assigned(self, node: IrNode) -> IrNode:
        if node.compiled is not None:
            self._registry.engine(node.compiled.engine)
            builtin = getattr(node.compiled, "builtin", "")
            if builtin:
                self._registry.udf(builtin)
            return node
        wanted = node.engine or self._in_force.of(node.settings).engine
        if isinstance(node.point, FuncProcessPoint):
            node = self._with_builtin(node, node.point)
            # A session that wants another engine for its models does not mean its functions.
            wanted = node.engine
        options = self._in_force.texts_of(node.settings)
        return replace(node, engine=self._registry.engine_for(node.point, wanted, options).id)

    def _with_builtin(self, node: IrNode, point: FuncProcessPoint) -> IrNode:
        """Checks a ready-made function: it is there, and knows the parameters it is given."""
        if not point.builtin:
            return node
        try:
            entry = builtin_entry(point, self._registry)
        except OptionError as error:
            error.node = node.name
            raise
        functions = tuple(
            replace(
                func, holds_inputs=func.holds_inputs or entry.holds_inputs, n_mapping=func.n_mapping or entry.n_mapping
            )
            for func in node.functions or point.functions or (_whole(node),)
        )
        return replace(node, functions=functions)


def _whole(node: IrNode) -> FuncSpec:
    return FuncSpec("", tuple(range(len(node.inputs))), tuple(range(len(node.outputs))))
