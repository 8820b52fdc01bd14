"""A deploy file to start from, with every node of a graph on the first device."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataflow.dataflow import FlowGraph

__all__ = ["generate_deploy_template"]

_FIRST_DEVICE = "0:0:0:0"


def generate_deploy_template(graph: FlowGraph, file_path: str) -> None:
    """Write a `batch_deploy_info` file with one entry for each node of a graph; an existing file is replaced.

    Args:
        graph: The graph.
        file_path: The file; name it in the option `ge.experiment.data_flow_deploy_info_path`.
    """
    names = [node.alias or node.name for node in graph.reachable_nodes()]
    entries = [{"flow_node_list": [name], "logic_device_list": _FIRST_DEVICE} for name in names]
    with open(file_path, "w", encoding="utf-8") as file:
        json.dump({"batch_deploy_info": entries}, file, indent=4)
    print(f"generated deploy template with {len(entries)} nodes: {file_path}")
