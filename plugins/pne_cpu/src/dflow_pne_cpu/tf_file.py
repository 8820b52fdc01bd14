"""What a frozen TensorFlow graph says about itself: placeholders, and the nodes nobody reads.

WireField numbers are those of graph.proto, node_def.proto and attr_value.proto
(https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/framework).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dflow_core.graph import WireBuffer, WireError, WireField, WireMessage
from dflow_core.types import DataType, TensorSpec
from dflow_pne_cpu.facts import FileFacts

_DTYPES = {
    1: DataType.FLOAT, 2: DataType.DOUBLE, 3: DataType.INT32, 4: DataType.UINT8, 5: DataType.INT16, 6: DataType.INT8,
    7: DataType.STRING, 9: DataType.INT64, 10: DataType.BOOL, 14: DataType.BF16, 17: DataType.UINT16,
    19: DataType.FLOAT16, 22: DataType.UINT32, 23: DataType.UINT64,
}
_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
_NEVER_OUTPUTS = _PLACEHOLDERS | {"Const", "NoOp", "Assert", "VariableV2", "VarHandleOp"}
_FIXED_PORTS = {"TopK": 2, "TopKV2": 2, "Unique": 2, "Switch": 2, "Merge": 2, "NonMaxSuppressionV4": 2,
                "NonMaxSuppressionV5": 3, "CombinedNonMaxSuppression": 4}
_COUNTED_PORTS = {"Split": "num_split", "SplitV": "num_split", "Unpack": "num"}
_LISTED_PORTS = {"IdentityN": "T", "PartitionedCall": "Tout", "StatefulPartitionedCall": "Tout"}
_SAME_DTYPE = frozenset({
    "Add", "AddV2", "BiasAdd", "ConcatV2", "Conv2D", "Exp", "Identity", "MatMul", "Max", "Maximum", "Mean", "Minimum",
    "Mul", "Relu", "Relu6", "Reshape", "Sigmoid", "Softmax", "Split", "Squeeze", "Sub", "Sum", "Tanh", "Transpose",
})


@dataclass(slots=True)
class _Node:
    name: str = ""
    op: str = ""
    inputs: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    types: dict[str, list[int]] = field(default_factory=dict)
    shapes: dict[str, list[tuple[int, ...] | None]] = field(default_factory=dict)


def read_graph_def(buffer: WireBuffer) -> FileFacts:
    """Placeholders, and outputs: every port of each node that nobody reads, in the file's order.

    Raises:
        WireError: if the bytes are no frozen graph.
    """
    nodes = _read_nodes(WireMessage.whole(buffer))
    read_by_others = {_producer(name) for node in nodes for name in node.inputs}
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    unsupported: dict[str, str] = {}
    for node in nodes:
        if node.op in _PLACEHOLDERS:
            spec = _placeholder_spec(node)
            inputs.append(spec)
            if spec.dtype is DataType.UNDEFINED:
                unsupported[spec.name] = "has an element type that dflow cannot send"
        elif node.name not in read_by_others and node.op not in _NEVER_OUTPUTS:
            outputs.extend(_output_specs(node))
    if not outputs:
        raise WireError("the graph has no outputs", 0)
    ports = {node.name: _known_ports(node) for node in nodes}
    return FileFacts(tuple(inputs), tuple(outputs), tensors=ports, unsupported=unsupported)


def _read_nodes(graph: WireMessage) -> list[_Node]:
    nodes = []
    for part in graph.fields():
        if part.number == 1 and part.is_number:
            raise WireError("this is a SavedModel, not a frozen graph; freeze it first", part.start)
        if part.number not in (1, 2, 3, 4, 5):
            raise WireError(f"field {part.number} is none of a TensorFlow graph", part.start)
        if part.number == 1:
            node = _read_node(graph.inner(part))
            if not node.name or not node.op:
                raise WireError("a node without name or operation", part.start)
            nodes.append(node)
    if not nodes:
        raise WireError("no nodes in it", 0)
    return nodes


def _read_node(message: WireMessage) -> _Node:
    node, attributes = _Node(), []
    for part in message.fields():
        if part.number == 1:
            node.name = message.text(part)
        elif part.number == 2:
            node.op = message.text(part)
        elif part.number == 3:
            node.inputs.append(message.text(part))
        elif part.number == 5:
            attributes.append(part)
    if node.op != "Const":
        for part in attributes:
            _read_attribute(message.inner(part), node)
    return node


def _read_attribute(entry: WireMessage, node: _Node) -> None:
    key, value = "", None
    for part in entry.fields():
        if part.number == 1:
            key = entry.text(part)
        elif part.number == 2:
            value = entry.inner(part)
    if value is None:
        return
    for part in value.fields():
        if part.number == 1:
            _read_list(key, value.inner(part), node)
        elif part.number == 3:
            node.numbers[key] = value.number(part)
        elif part.number == 6:
            node.types[key] = [value.number(part)]
        elif part.number == 7:
            node.shapes[key] = [_read_shape(value.inner(part))]


def _read_list(key: str, message: WireMessage, node: _Node) -> None:
    for part in message.fields():
        if part.number == 6:
            node.types.setdefault(key, []).extend(message.numbers(part))
        elif part.number == 7:
            node.shapes.setdefault(key, []).append(_read_shape(message.inner(part)))


def _read_shape(message: WireMessage) -> tuple[int, ...] | None:
    dims = []
    for part in message.fields():
        if part.number == 3 and message.number(part):
            return None
        if part.number == 2:
            dims.append(_read_dim(message, part))
    return tuple(dims)


def _read_dim(message: WireMessage, part: WireField) -> int:
    dim = message.inner(part)
    size = next((dim.number(f) for f in dim.fields() if f.number == 1), 0)
    return size if size >= 0 else -1


def _producer(name: str) -> str:
    """Node of an input reference: `^control`, `node` or `node:port`."""
    return name.removeprefix("^").partition(":")[0]


def _placeholder_spec(node: _Node) -> TensorSpec:
    code = node.types.get("dtype", [0])[0]
    shape = node.shapes.get("shape", [None])[0]
    return TensorSpec(_DTYPES.get(code, DataType.UNDEFINED), shape, node.name)


def _known_ports(node: _Node) -> int:
    if node.op in _FIXED_PORTS:
        return _FIXED_PORTS[node.op]
    if node.op in _COUNTED_PORTS:
        return max(node.numbers.get(_COUNTED_PORTS[node.op], 0), 0)
    if node.op in _LISTED_PORTS:
        return len(node.types.get(_LISTED_PORTS[node.op], ()))
    return 0


def _output_specs(node: _Node) -> Sequence[TensorSpec]:
    shapes = node.shapes.get("_output_shapes", [])
    count = min(_known_ports(node) or 1, 1024)
    listed = node.types.get(_LISTED_PORTS.get(node.op, ""), [])
    same = node.types.get("T", [0])[0] if node.op in _SAME_DTYPE else 0
    specs = []
    for port in range(count):
        code = listed[port] if port < len(listed) else same
        shape = shapes[port] if port < len(shapes) else None
        name = f"{node.name}:{port}" if port else node.name
        specs.append(TensorSpec(_DTYPES.get(code, DataType.UNDEFINED), shape, name))
    return specs
