"""Graphs to bytes and back, and files of them.

    magic `DFGRAPH1` (8) | CRC-32 of the rest (u32) | size of the message (u64) | message `Graph`, all little endian

Equal graphs give equal bytes. Pickled code inside stays bytes: reading a graph runs nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from types import MappingProxyType

from google.protobuf.message import DecodeError, EncodeError

from dflow_core.errors import ModelFormatError, PackagingError, UsageError
from dflow_core.graph.attributes import QueueSettings
from dflow_core.graph.batching import Batch, CountBatch, TimeBatch
from dflow_core.graph.flow_data import FlowData
from dflow_core.graph.flow_graph import FlowGraph
from dflow_core.graph.foreign_points import PointCodec
from dflow_core.graph.names import Name
from dflow_core.graph.node import FlowNode, FlowOutput, PortMap, ProcessPoint, Source
from dflow_core.graph.point_serde import (
    Reading,
    Writing,
    deserialize_point,
    serialize_point,
)
from dflow_core.proto import graph_pb2 as pb
from dflow_core.types_serde import (
    deserialize_options,
    deserialize_spec,
    deserialize_value,
    serialize_options,
    serialize_spec,
    serialize_value,
)

MAGIC = b"DFGRAPH1"
VERSION = 1
MAX_DEPTH = 16
_HEAD = struct.Struct("<8sIQ")
_NO_CODECS: Mapping[str, PointCodec] = MappingProxyType({})


def serialize_graph(graph: FlowGraph, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> bytes:
    """A graph as bytes.

    Args:
        graph: The graph; it may have faults, but no node may have two process points or foreign wiring.
        codecs: Functions for process points of third-party kinds, by kind.

    Raises:
        UsageError: the graph cannot be written because of its faults.
        PackagingError: something in it cannot be written, or it is larger than 2 GiB.
        PluginError: nobody registered the kind of a process point.
    """
    payload = _payload(graph, codecs, packages=True)
    size = len(payload)
    return _HEAD.pack(MAGIC, zlib.crc32(payload, zlib.crc32(size.to_bytes(8, "little"))), size) + payload


def deserialize_graph(data: bytes, codecs: Mapping[str, PointCodec] = _NO_CODECS, *, opaque: bool = False) -> FlowGraph:
    """The inverse of `serialize_graph`.

    Args:
        data: The bytes.
        codecs: Functions for process points of third-party kinds, by kind.
        opaque: Whether points of unknown kinds are kept as they are (to look at the graph), instead of refused.

    Raises:
        ModelFormatError: the bytes are no graph; says where.
        PluginError: nobody registered the kind of a process point.
    """
    return _deserialize(data, codecs, opaque, None)


def save_graph(graph: FlowGraph, path: str | os.PathLike[str], codecs: Mapping[str, PointCodec] = _NO_CODECS) -> None:
    """Write a graph to a file, which is complete or not there."""
    data = serialize_graph(graph, codecs)
    temporary = f"{os.fspath(path)}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def load_graph(
    path: str | os.PathLike[str], codecs: Mapping[str, PointCodec] = _NO_CODECS, *, opaque: bool = False
) -> FlowGraph:
    """Read a graph from a file; arguments and errors as for `deserialize_graph`."""
    place = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ModelFormatError(f"cannot be read: {error.strerror}", path=place) from error
    return _deserialize(data, codecs, opaque, place)


def point_to_bytes(point: ProcessPoint, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> bytes:
    """One process point as bytes; errors as for `serialize_graph`."""
    how = Writing(codecs, lambda inner: _write_graph(inner, codecs, True, 1), True)
    data: bytes = serialize_point(point, None, how).SerializeToString(deterministic=True)
    return data


def point_from_bytes(data: bytes, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> ProcessPoint:
    """The inverse of `point_to_bytes`.

    Raises:
        ModelFormatError: the bytes are no process point.
        PluginError: nobody registered its kind.
    """
    try:
        with _reading("process point"):
            how = Reading(codecs, lambda inner: _graph(inner, codecs, False, 1), False)
            return deserialize_point(pb.ProcessPoint.FromString(data), how)
    except _BrokenError as error:
        raise ModelFormatError(str(error)) from error


def graph_fingerprint(graph: FlowGraph, codecs: Mapping[str, PointCodec] = _NO_CODECS) -> str:
    """Text that is equal for graphs that say the same, also from different processes.

    Pickled code counts by its fingerprint (pickles of one class differ from process to process). Model files count by
    their path only.
    """
    return hashlib.sha256(_payload(graph, codecs, packages=False)).hexdigest()


# ------------------------------------------------------------------------------------------------------------ writing


def _payload(graph: FlowGraph, codecs: Mapping[str, PointCodec], packages: bool) -> bytes:
    try:
        data: bytes = _write_graph(graph, codecs, packages, 1).SerializeToString(deterministic=True)
    except (EncodeError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        hint = "give large models as files, not as bytes"
        raise PackagingError(f"graph {graph.name!r} cannot be written: {error}", hint=hint) from error
    return data


def _write_graph(graph: FlowGraph, codecs: Mapping[str, PointCodec], packages: bool, depth: int) -> pb.Graph:
    if depth > MAX_DEPTH:
        raise UsageError(f"graphs nested more than {MAX_DEPTH} deep cannot be written")
    how = Writing(codecs, lambda inner: _write_graph(inner, codecs, packages, depth + 1), packages)
    inputs = {data: i for i, data in enumerate(graph.inputs)}
    nodes = {node: i for i, node in enumerate(graph.nodes)}
    proto = pb.Graph(version=VERSION, name=graph.name, options={k: str(v) for k, v in graph.options.items()})
    for data in graph.inputs:
        schema = serialize_spec(data.schema) if data.schema else None
        proto.inputs.append(pb.Data(name=data.name, schema=schema, queue=_write_queue(data.queue)))
    for node in graph.nodes:
        proto.nodes.append(_write_node(node, inputs, nodes, how))
    for output in graph.outputs:
        proto.outputs.append(pb.Source.Output(node=nodes[output.node], index=output.index))
    return proto


def _write_node(node: FlowNode, inputs: Mapping[FlowData, int], nodes: Mapping[FlowNode, int], how: Writing) -> pb.Node:
    foreign = [m for m in (*node.input_maps, *node.output_maps) if m.point is not node.point]
    if len(node.points) > 1 or foreign:
        message = "a node with two process points, or with ports mapped to another's, cannot be written"
        raise UsageError(message, node=node.name, hint="graph.faults() says what to repair")
    proto = pb.Node(
        name=node.name, input_num=node.input_num, output_num=node.output_num, alias=node.alias,
        input_maps=map(_write_map, node.input_maps), output_maps=map(_write_map, node.output_maps),
        options=serialize_options(node.options),
        depth=node.depth,
    )
    if node.point is not None:
        proto.point.CopyFrom(serialize_point(node.point, node, how))
    for source in node.sources:
        proto.sources.append(_write_source(source, inputs, nodes, node))
    for name, value in node.attrs.items():
        proto.attrs[name].CopyFrom(serialize_value(value, f"{node.name}: attribute {name!r}"))
    for index, queue in node.queues.items():
        proto.queues[index].CopyFrom(_write_queue(queue))
    return proto


def _write_source(
    source: Source | None, inputs: Mapping[FlowData, int], nodes: Mapping[FlowNode, int], node: FlowNode
) -> pb.Source:
    if source is None:
        return pb.Source()
    if isinstance(source, FlowData) and source in inputs:
        return pb.Source(input=inputs[source])
    if isinstance(source, FlowOutput) and source.node in nodes:
        return pb.Source(output=pb.Source.Output(node=nodes[source.node], index=source.index))
    raise UsageError(
        f"it was wired to {source!r} after the graph had been built", node=node.name,
        hint="build the FlowGraph after all wiring",
    )


def _write_map(port: PortMap) -> pb.PortMap:
    attrs = map(_write_batch, port.attrs)
    return pb.PortMap(node_index=port.node_index, point_index=port.point_index, attrs=attrs)


def _write_batch(batch: Batch) -> pb.Batch:
    if isinstance(batch, TimeBatch):
        time = pb.Batch.Time(window=batch.time_window, dim=batch.batch_dim, drop_remainder=batch.drop_remainder)
        return pb.Batch(time=time)
    count = pb.Batch.Count(
        size=batch.batch_size, slide_stride=batch.slide_stride, timeout=batch.timeout, padding=batch.padding
    )
    return pb.Batch(count=count)


# ------------------------------------------------------------------------------------------------------------ reading


class _BrokenError(ValueError):
    """What is wrong with the bytes, and where; becomes a ModelFormatError at the door."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


def _deserialize(data: bytes, codecs: Mapping[str, PointCodec], opaque: bool, path: str | None) -> FlowGraph:
    try:
        payload = _checked(data)
        with _reading("graph"):
            return _graph(pb.Graph.FromString(payload), codecs, opaque, 1)
    except _BrokenError as error:
        raise ModelFormatError(str(error), path=path, offset=error.offset) from error


def _checked(data: bytes) -> bytes:
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise _BrokenError(f"expected a graph, which begins with {MAGIC.decode()}, got {data[:8]!r}", 0)
    _, checksum, size = _HEAD.unpack_from(data)
    payload = data[_HEAD.size:]
    if len(payload) != size:
        message = f"expected a graph of {size} bytes, got {len(payload)}"
        raise _BrokenError(message, min(len(data), _HEAD.size + size))
    if zlib.crc32(payload, zlib.crc32(size.to_bytes(8, "little"))) != checksum:
        raise _BrokenError("the graph was altered: its checksum differs", _HEAD.size)
    return payload


@contextlib.contextmanager
def _reading(what: str) -> Iterator[None]:
    """Put where it was before whatever a broken message makes readers raise."""
    try:
        yield
    except (DecodeError, ValueError, IndexError, RecursionError) as error:
        text = error.message if isinstance(error, UsageError) else str(error)
        raise _BrokenError(f"{what}: {text}") from error


def _graph(proto: pb.Graph, codecs: Mapping[str, PointCodec], opaque: bool, depth: int) -> FlowGraph:
    if proto.version != VERSION:
        raise ValueError(f"expected version {VERSION}, got {proto.version}")
    if depth > MAX_DEPTH:
        raise ValueError(f"graphs nested more than {MAX_DEPTH} deep")
    how = Reading(codecs, lambda inner: _graph(inner, codecs, opaque, depth + 1), opaque)
    inputs = []
    for entry in proto.inputs:
        with _reading(f"input {entry.name!r}"):
            schema = deserialize_spec(entry.schema) if entry.HasField("schema") else None
            data = FlowData(Name.exactly(entry.name), schema)
            if entry.HasField("queue"):
                data.queue = _queue(entry.queue)
            inputs.append(data)
    nodes = []
    for item in proto.nodes:
        with _reading(f"node {item.name!r}"):
            nodes.append(_node(item, how))
    for item, node in zip(proto.nodes, nodes):
        with _reading(f"wiring of node {item.name!r}"):
            _wire(item, node, inputs, nodes)
    outputs = [FlowOutput(nodes[output.node], output.index) for output in proto.outputs]
    graph = FlowGraph(outputs, dict(proto.options), proto.name)
    if len(graph.nodes) != len(nodes) or len(graph.inputs) != len(inputs):
        raise ValueError("it holds nodes or inputs that no output needs")
    return graph


def _node(proto: pb.Node, how: Reading) -> FlowNode:
    node = FlowNode(proto.input_num, proto.output_num, Name.exactly(proto.name))
    if proto.HasField("alias"):
        node.set_alias(proto.alias)
    if proto.HasField("point"):
        node.add_process_point(deserialize_point(proto.point, how))
    if node.point is not None:
        for entry in proto.input_maps:
            node.map_input(entry.node_index, node.point, entry.point_index, [_batch(attr) for attr in entry.attrs])
        for entry in proto.output_maps:
            node.map_output(entry.node_index, node.point, entry.point_index)
    for name in sorted(proto.attrs):
        value = deserialize_value(proto.attrs[name])
        if not isinstance(value, (bool, int, str)):
            raise ValueError(f"attribute {name!r} of a type it cannot have")
        node.set_attr(name, value)
    node.set_options(depth=proto.depth, **asdict(deserialize_options(proto.options)))
    for index in sorted(proto.queues):
        queue = _queue(proto.queues[index])
        node.set_queue(index, depth=queue.depth, overflow=queue.overflow, max_age=queue.max_age)
    return node


def _write_queue(queue: QueueSettings) -> pb.Queue:
    return pb.Queue(depth=queue.depth, overflow=queue.overflow, max_age=queue.max_age)


def _queue(proto: pb.Queue) -> QueueSettings:
    return QueueSettings(proto.depth, proto.overflow or "block", proto.max_age)


def _wire(proto: pb.Node, node: FlowNode, inputs: list[FlowData], nodes: list[FlowNode]) -> None:
    if len(proto.sources) != node.input_num:
        raise ValueError(f"expected {node.input_num} inputs, got {len(proto.sources)}")
    for port, source in enumerate(proto.sources):
        kind = source.WhichOneof("kind")
        if kind == "input":
            node.wire([inputs[source.input]], [port], [])
        elif kind == "output":
            node.wire([FlowOutput(nodes[source.output.node], source.output.index)], [port], [])


def _batch(proto: pb.Batch) -> Batch:
    if proto.WhichOneof("kind") == "time":
        return TimeBatch(proto.time.window, proto.time.dim, proto.time.drop_remainder)
    count = proto.count
    return CountBatch(count.size, count.slide_stride, count.timeout, count.padding)