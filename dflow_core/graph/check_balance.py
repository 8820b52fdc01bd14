"""Faults of nodes that deal parts out over instances (runtime-semantics.md section 12.1)."""

from __future__ import annotations

from collections.abc import Iterator

from dflow_core.errors import Fault
from dflow_core.graph.node import FlowNode, FlowOutput, GraphView


def balance_faults(graph: GraphView) -> Iterator[Fault]:
    """Nodes that both scatter and gather, and joins of which only some inputs are balanced.

    The parts of a join have to meet in one instance, so all of them must be dealt out in the same way, or none.
    """
    for node in graph.nodes:
        if node.attrs.get("_balance_scatter") and node.attrs.get("_balance_gather"):
            text = "it is both set_balance_scatter() and set_balance_gather()"
            yield Fault("balance", node.name, "", text, "leave one of them out")
        balanced = [isinstance(source, FlowOutput) and _is_balanced(source.node) for source in node.sources]
        if any(balanced) and not all(balanced):
            port = balanced.index(False)
            text = "it is not fed by a scatter or gather node, as other inputs of the node are"
            yield Fault("balance", node.name, f"input {port}", text, "mark what feeds it too, or join before")


def _is_balanced(node: FlowNode) -> bool:
    return bool(node.attrs.get("_balance_scatter") or node.attrs.get("_balance_gather"))
