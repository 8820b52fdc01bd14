"""All faults of a graph at once, found without opening a process: names, wiring, types, alignment, nested graphs."""

from __future__ import annotations

import dataclasses

from dflow_core.errors import Fault
from dflow_core.graph.check_alignment import alignment_faults
from dflow_core.graph.check_balance import balance_faults
from dflow_core.graph.check_invoked import inner_graphs, invoked_faults
from dflow_core.graph.check_names import flattened_name_faults, name_faults
from dflow_core.graph.check_types import Describe, type_faults
from dflow_core.graph.check_wiring import wiring_faults
from dflow_core.graph.node import GraphView

MAX_NESTING = 16


def graph_faults(graph: GraphView, describe: Describe | None = None) -> tuple[Fault, ...]:
    """Everything that is wrong with a graph and the graphs inside it.

    Args:
        graph: The graph.
        describe: Says what a process point takes and gives, for the checks of counts, dtypes and shapes.

    Returns:
        Faults in the order of the nodes; those of nested graphs name the node as `outer/inner`.
    """
    faults = _own_faults(graph, describe, 1)
    faults += flattened_name_faults(graph, MAX_NESTING)
    if not any(fault.kind in ("cycle", "nesting", "output-index") for fault in faults):
        faults += alignment_faults(graph)
    return tuple(dict.fromkeys(faults))


def _own_faults(graph: GraphView, describe: Describe | None, depth: int) -> list[Fault]:
    faults = [*name_faults(graph), *wiring_faults(graph), *type_faults(graph, describe, MAX_NESTING - depth)]
    faults += balance_faults(graph)
    for place, inner in inner_graphs(graph):
        scope = "/".join(place)
        if depth == MAX_NESTING:
            message = f"expected graphs nested at most {MAX_NESTING} deep, got one more"
            faults.append(Fault("nesting", scope, "", message, "put the inner nodes into the graph around them"))
            continue
        for fault in _own_faults(inner, describe, depth + 1):
            faults.append(dataclasses.replace(fault, node=f"{scope}/{fault.node}"))
    faults += invoked_faults(graph, describe)
    return faults
