"""Front door of `serde.py`: protobuf is loaded when a graph is first written or read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType

from dflow_core.graph.flow_graph import FlowGraph
from dflow_core.graph.foreign_points import PointCodec
from dflow_core.graph.node import ProcessPoint

_NO_CODECS: Mapping[str, PointCodec] = MappingProxyType({})


def serialize_graph(graph: FlowGraph, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> bytes:
    """A graph as bytes; equal graphs give equal bytes.

    Args:
        graph: The graph.
        codecs: Functions for process points of third-party kinds, by kind (the registry's `point_kinds`).

    Raises:
        UsageError: the graph cannot be written because of its faults.
        PackagingError: something in it cannot be written, or it is larger than 2 GiB.
        PluginError: nobody registered the kind of a process point.
    """
    from dflow_core.graph.serde import serialize_graph as work

    return work(graph, codecs)


def deserialize_graph(data: bytes, codecs: Mapping[str, PointCodec] = _NO_CODECS, *, opaque: bool = False) -> FlowGraph:
    """The inverse of `serialize_graph`. Runs no code of the graph.

    Args:
        data: The bytes.
        codecs: Functions for process points of third-party kinds, by kind.
        opaque: Whether points of unknown kinds are kept as they are (to look at the graph), instead of refused.

    Raises:
        ModelFormatError: the bytes are no graph; says where.
        PluginError: nobody registered the kind of a process point.
    """
    from dflow_core.graph.serde import deserialize_graph as work

    return work(data, codecs, opaque=opaque)


def save_graph(graph: FlowGraph, path: str | os.PathLike[str], codecs: Mapping[str, PointCodec] = _NO_CODECS) -> None:
    """Write a graph to a file, which is complete or not there; errors as for `serialize_graph`."""
    from dflow_core.graph.serde import save_graph as work

    work(graph, path, codecs)


def load_graph(
    path: str | os.PathLike[str], codecs: Mapping[str, PointCodec] = _NO_CODECS, *, opaque: bool = False
) -> FlowGraph:
    """Read a graph from a file; arguments and errors as for `deserialize_graph`."""
    from dflow_core.graph.serde import load_graph as work

    return work(path, codecs, opaque=opaque)


def graph_fingerprint(graph: FlowGraph, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> str:
    """Text that is equal for graphs that say the same, also from different processes.

    Pickled code counts by its fingerprint, because pickles of one class differ from process to process; model files
    count by their path only.
    """
    from dflow_core.graph.serde import graph_fingerprint as work

    return work(graph, codecs)


def point_to_bytes(point: ProcessPoint, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> bytes:
    """One process point as bytes; errors as for `serialize_graph`."""
    from dflow_core.graph.serde import point_to_bytes as work

    return work(point, codecs)


def point_from_bytes(data: bytes, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> ProcessPoint:
    """The inverse of `point_to_bytes`.

    Raises:
        ModelFormatError: the bytes are no process point.
        PluginError: nobody registered its kind.
    """
    from dflow_core.graph.serde import point_from_bytes as work

    return work(data, codecs)
