"""A deploy file to start from, with every node of a graph on the first device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dflow_core.graph import write_deploy_template

if TYPE_CHECKING:
    from dataflow.dataflow import FlowGraph

__all__ = ["generate_deploy_template"]


def generate_deploy_template(graph: FlowGraph, file_path: str) -> None:
    """Write a `batch_deploy_info` file with one entry for each node of a graph; an existing file is replaced.

    Args:
        graph: The graph.
        file_path: The file; name it in the option `ge.experiment.data_flow_deploy_info_path`.

    Raises:
        UsageError: the file cannot be written.
    """
    count = write_deploy_template(graph.core_graph, file_path)
    print(f"generated deploy template with {count} nodes: {file_path}")
