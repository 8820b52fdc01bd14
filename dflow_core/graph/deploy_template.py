"""A deploy file to begin with, made from a graph."""

from __future__ import annotations

import json
from pathlib import Path

from dflow_core.errors import UsageError
from dflow_core.graph.node import FlowNode, FlowOutput, GraphView

_FIRST_DEVICE = "0:0:0:0"


def write_deploy_template(graph: GraphView, path: str) -> int:
    """Write a deploy file that puts every node of a graph on the first device; overwrites what is there.

    Args:
        graph: The graph.
        path: The file.

    Returns:
        How many nodes it lists.

    Raises:
        UsageError: the file cannot be written.
    """
    entries = _entries(graph)
    text = json.dumps({"batch_deploy_info": entries}, indent=4, ensure_ascii=False)
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as cause:
        raise UsageError(f"the deploy template {path} cannot be written: {cause.strerror}") from cause
    return len(entries)


def _entries(graph: GraphView) -> list[dict[str, object]]:
    """In the order in which nodes are found from the last output backwards, as `generate_deploy_template` has them."""
    waiting = [output.node for output in graph.outputs]
    found: dict[FlowNode, None] = {}
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += [source.node for source in node.sources if isinstance(source, FlowOutput)]
    return [{"flow_node_list": [node.alias or node.name], "logic_device_list": _FIRST_DEVICE} for node in found]
