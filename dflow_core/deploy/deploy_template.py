"""A deploy file to begin with, made from a graph."""

from __future__ import annotations

import json
from pathlib import Path

from dflow_core.errors import UsageError
from dflow_core.graph import FlowNode, FlowOutput, GraphView

_FIRST_DEVICE = "0:0:0:0"


def deploy_template(graph: GraphView) -> dict[str, object]:
    """What a deploy file says that puts every node of a graph on the first device.

    The nodes come in the order in which they are found from the last output backwards, as upstream's
    `generate_deploy_template` has them.

    Args:
        graph: The graph; graphs inside its nodes count as those nodes.
    """
    waiting = [output.node for output in graph.outputs]
    found: dict[FlowNode, None] = {}
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += [source.node for source in node.sources if isinstance(source, FlowOutput)]
    entries = [{"flow_node_list": [node.alias or node.name], "logic_device_list": _FIRST_DEVICE} for node in found]
    return {"batch_deploy_info": entries}


def write_deploy_template(graph: GraphView, path: str) -> None:
    """Write a deploy file that puts every node of a graph on the first device; overwrites what is there.

    Args:
        graph: The graph.
        path: The file.

    Raises:
        UsageError: the file cannot be written.
    """
    text = json.dumps(deploy_template(graph), indent=4, ensure_ascii=False)
    try:
        Path(path).write_text(text + "\n", encoding="utf-8")
    except OSError as cause:
        raise UsageError(f"the deploy template {path} cannot be written: {cause.strerror}") from cause
