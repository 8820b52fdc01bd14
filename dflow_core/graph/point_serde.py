"""Process points to messages and back; with `serde.py` the only module of this folder that knows protobuf.

A third-party point is written by the functions its plugin registered, and kept as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dflow_core.errors import PackagingError, PluginError
from dflow_core.graph.flow_graph import FlowGraph
from dflow_core.graph.foreign_points import OpaqueProcessPoint, PointCodec
from dflow_core.graph.node import FlowNode, ProcessPoint
from dflow_core.graph.points import (
    FlowGraphProcessPoint,
    Framework,
    FuncProcessPoint,
    GraphProcessPoint,
    ModelProcessPoint,
    is_init_value,
)
from dflow_core.proto import graph_pb2 as pb
from dflow_core.types_serde import deserialize_func, deserialize_value, serialize_func, serialize_value


@dataclass(frozen=True, slots=True)
class Writing:
    """How points are written.

    Args:
        codecs: Functions for third-party kinds.
        graph: Writes a nested graph.
        packages: Whether pickled code is written itself; else its fingerprint stands for it, where it has one.
    """

    codecs: Mapping[str, PointCodec]
    graph: Callable[[FlowGraph], pb.Graph]
    packages: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """How points are read.

    Args:
        codecs: Functions for third-party kinds.
        graph: Reads a nested graph.
        opaque: Whether points of unknown kinds become OpaqueProcessPoints instead of an error.
    """

    codecs: Mapping[str, PointCodec]
    graph: Callable[[pb.Graph], FlowGraph]
    opaque: bool


def serialize_point(point: ProcessPoint, node: FlowNode | None, how: Writing) -> pb.ProcessPoint:
    """A point, with the ports of the node it is on, as a message.

    Raises:
        PackagingError: an init parameter, or the point's own bytes, cannot be written.
        PluginError: nobody registered its kind.
    """
    proto = pb.ProcessPoint(name=point.name, kind=point.kind, funcs=map(serialize_func, point.functions))
    if node is not None:
        proto.in_edges.extend(_edges(node.name, node.point_inputs()))
        proto.out_edges.extend(_edges(node.name, node.point_outputs()))
    if isinstance(point, GraphProcessPoint):
        _write_graph_point(point, proto)
    elif isinstance(point, FuncProcessPoint):
        _write_func_point(point, proto, how.packages)
        for name, inner in point.invoked.items():
            proto.invoke_pps[name].CopyFrom(serialize_point(inner, None, how))
    elif isinstance(point, FlowGraphProcessPoint):
        proto.type = pb.ProcessPoint.FLOW_GRAPH
        proto.graphs.append(point.flow_graph.name)
        proto.flow_graph.CopyFrom(how.graph(point.flow_graph))
    elif isinstance(point, ModelProcessPoint):
        proto.type = pb.ProcessPoint.INNER
        proto.graphs.append(point.path)
    elif isinstance(point, OpaqueProcessPoint):
        proto.type, proto.kind, proto.data = pb.ProcessPoint.INNER, point.point_kind, point.data
    else:
        proto.type = pb.ProcessPoint.INNER
        proto.data = _foreign_bytes(point, how.codecs)
    return proto


def deserialize_point(proto: pb.ProcessPoint, how: Reading) -> ProcessPoint:
    """The inverse of `serialize_point`.

    Raises:
        PluginError: nobody registered its kind.
        ValueError: the message is no process point.
    """
    if proto.kind == "graph":
        return _graph_point(proto)
    if proto.kind == "func":
        return _func_point(proto, how)
    if proto.kind == "flow_graph":
        return FlowGraphProcessPoint(how.graph(proto.flow_graph), proto.name)
    if proto.kind == "model":
        if len(proto.graphs) != 1:
            raise ValueError("a compiled model without its path")
        return ModelProcessPoint(proto.graphs[0], proto.name)
    codec = how.codecs.get(proto.kind)
    if codec is not None:
        return _foreign_point(proto, codec)
    if how.opaque:
        return OpaqueProcessPoint(proto.kind, proto.data, proto.name)
    raise _unknown_kind(proto.kind)


def _edges(node: str, order: Sequence[int]) -> Iterator[pb.Edge]:
    """For each port of the point, in order, the node's port it is tied to."""
    for _, port in sorted((point_port, node_port) for node_port, point_port in enumerate(order)):
        yield pb.Edge(node_name=node, index=port)


def _write_graph_point(point: GraphProcessPoint, proto: pb.ProcessPoint) -> None:
    proto.type = pb.ProcessPoint.GRAPH
    proto.compile_cfg_file = point.compile_config_path
    proto.framework = point.framework.value
    proto.graph_bytes = point.graph_bytes
    if point.graph_file:
        proto.graphs.append(point.graph_file)
    proto.load_params.update(point.load_params)
    proto.pp_extend_attrs.update(point.settings)


def _graph_point(proto: pb.ProcessPoint) -> GraphProcessPoint:
    source = proto.graphs[0] if len(proto.graphs) else proto.graph_bytes
    point = GraphProcessPoint(
        Framework(proto.framework), source, dict(proto.load_params), proto.compile_cfg_file, proto.name
    )
    point.settings = dict(proto.pp_extend_attrs)
    return point


def _write_func_point(point: FuncProcessPoint, proto: pb.ProcessPoint, packages: bool) -> None:
    proto.type = pb.ProcessPoint.FUNCTION
    proto.compile_cfg_file = point.compile_config_path
    proto.builtin, proto.is_built_in = point.builtin, bool(point.builtin)
    if packages or not point.attrs.get("fingerprint"):
        proto.package = point.package
    proto.pp_extend_attrs.update(point.attrs)
    for name, value in point.init_params.items():
        if not is_init_value(value):
            raise PackagingError(
                f"init parameter {name!r} of {point.name!r} cannot be {value!r}",
                hint="set it with set_init_param, which says what is possible",
            )
        proto.attrs[name].CopyFrom(serialize_value(value, f"{point.name}: init parameter {name!r}"))


def _func_point(proto: pb.ProcessPoint, how: Reading) -> FuncProcessPoint:
    point = FuncProcessPoint(
        proto.compile_cfg_file, proto.name, package=proto.package, functions=[deserialize_func(f) for f in proto.funcs],
        builtin=proto.builtin, attrs=dict(proto.pp_extend_attrs),
    )
    for name in sorted(proto.attrs):
        point.set_init_param(name, deserialize_value(proto.attrs[name]))
    for name in sorted(proto.invoke_pps):
        inner = deserialize_point(proto.invoke_pps[name], how)
        if not isinstance(inner, (GraphProcessPoint, FlowGraphProcessPoint, ModelProcessPoint)):
            raise ValueError(f"an invoked graph {name!r} of kind {inner.kind!r}")
        point.add_invoked_closure(name, inner)
    return point


def _foreign_bytes(point: ProcessPoint, codecs: Mapping[str, PointCodec]) -> bytes:
    codec = codecs.get(point.kind)
    if codec is None:
        raise _unknown_kind(point.kind or type(point).__name__)
    try:
        return bytes(codec.to_bytes(point))
    except Exception as error:
        message = f"process point {point.name!r} of kind {point.kind!r} cannot be written: {error}"
        raise PackagingError(message, hint="this is a fault of the plugin that added the kind") from error


def _foreign_point(proto: pb.ProcessPoint, codec: PointCodec) -> ProcessPoint:
    try:
        return codec.from_bytes(proto.data)
    except Exception as error:
        raise ValueError(f"process point {proto.name!r} of kind {proto.kind!r} cannot be read: {error}") from error


def _unknown_kind(kind: str) -> PluginError:
    hint = "install the plugin that adds this kind; `dflow plugins` lists what is there"
    return PluginError(f"no plugin knows process points of kind {kind!r}", hint=hint)