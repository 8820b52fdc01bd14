"""Nodes that no output needs are taken out."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.compiler.ir import IrGraph
from dflow_core.compiler.passes.base import Pass, PassResult


class Prune(Pass):
    """Takes out nodes that no output needs. Inputs nobody reads any more stay: the caller may feed them in vain."""

    name = "prune"

    def apply(self, graph: IrGraph) -> PassResult:
        producers = {endpoint: node for node in graph.nodes for endpoint in node.outputs}
        needed: set[str] = set()
        pending = [output.endpoint for output in graph.outputs]
        while pending:
            node = producers.get(pending.pop())
            if node is not None and node.name not in needed:
                needed.add(node.name)
                pending += node.needs
        gone = [node.name for node in graph.nodes if node.name not in needed]
        if not gone:
            return PassResult(graph)
        kept = replace(graph, nodes=tuple(node for node in graph.nodes if node.name in needed))
        return PassResult(kept, tuple(f"{name}: taken out, no output needs it" for name in gone))

    def ensures(self, graph: IrGraph) -> str | None:
        read = {e for node in graph.nodes for e in node.needs} | {o.endpoint for o in graph.outputs}
        idle = [node.name for node in graph.nodes if not read & set(node.outputs)]
        return f"nobody reads {', '.join(idle)}" if idle else None
