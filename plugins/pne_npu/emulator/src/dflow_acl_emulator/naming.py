"""Names that atc gives a model's outputs; ONNX files are read as far as nodes, outputs and their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

_GRAPH, _NODE, _OUTPUT = 7, 1, 12
_NODE_OUTPUT, _NODE_NAME, _NODE_TYPE, _NODE_DOMAIN = 2, 3, 4, 7
_VALUE_NAME = 1
_TF_NODE, _TF_NAME = 1, 1


@dataclass(frozen=True)
class OnnxNode:
    """A node of an ONNX graph."""

    name: str
    type: str
    domain: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class OnnxGraph:
    """Nodes and outputs of an ONNX file; empty where it could not be read."""

    nodes: tuple[OnnxNode, ...] = ()
    outputs: tuple[str, ...] = ()
    makers: dict[str, tuple[str, int]] = field(default_factory=dict)

    def output_name(self, tensor: str) -> str:
        """`node:index:tensor` for a tensor that a node makes, else the tensor itself."""
        node, index = self.makers.get(tensor, ("", 0))
        return f"{node}:{index}:{tensor}" if node else tensor

    def tensor_of(self, node: str, index: int) -> str:
        """The tensor at an output of a node; "" if there is none."""
        return next((tensor for tensor, maker in self.makers.items() if maker == (node, index)), "")


def read_graph(data: bytes) -> OnnxGraph:
    """What an ONNX file says of its nodes and outputs."""
    nodes: list[OnnxNode] = []
    outputs: list[str] = []
    try:
        for number, value in _fields(data):
            if number == _GRAPH and isinstance(value, memoryview):
                _read_inner(value, nodes, outputs)
    except (IndexError, UnicodeDecodeError):
        return OnnxGraph()
    makers = {tensor: (node.name, index) for node in nodes for index, tensor in enumerate(node.outputs)}
    return OnnxGraph(tuple(nodes), tuple(outputs), makers)


def node_names(data: bytes) -> list[str]:
    """Names of the nodes of a frozen TensorFlow graph, in the file's order."""
    found = []
    try:
        for number, value in _fields(data):
            if number == _TF_NODE and isinstance(value, memoryview):
                names = [text for key, text in _fields(value) if key == _TF_NAME and isinstance(text, memoryview)]
                found += [bytes(text).decode() for text in names]
    except (IndexError, UnicodeDecodeError):
        return []
    return found


def _read_inner(graph: memoryview, nodes: list[OnnxNode], outputs: list[str]) -> None:
    for number, value in _fields(graph):
        if not isinstance(value, memoryview):
            continue
        if number == _NODE:
            nodes.append(_node(value, len(nodes)))
        elif number == _OUTPUT:
            named = [text for key, text in _fields(value) if key == _VALUE_NAME and isinstance(text, memoryview)]
            outputs += [bytes(text).decode() for text in named]


def _node(view: memoryview, index: int) -> OnnxNode:
    texts: dict[int, list[str]] = {}
    for number, value in _fields(view):
        if number in (_NODE_OUTPUT, _NODE_NAME, _NODE_TYPE, _NODE_DOMAIN) and isinstance(value, memoryview):
            texts.setdefault(number, []).append(bytes(value).decode())
    kind = (texts.get(_NODE_TYPE) or [""])[0]
    name = (texts.get(_NODE_NAME) or [""])[0] or f"{kind}_{index}"
    return OnnxNode(name, kind, (texts.get(_NODE_DOMAIN) or [""])[0], tuple(texts.get(_NODE_OUTPUT, ())))


def _fields(data: bytes | memoryview) -> Iterator[tuple[int, memoryview | int]]:
    view, at = memoryview(data), 0
    while at < len(view):
        tag, at = _varint(view, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(view, at)
            yield tag >> 3, value
            continue
        if kind == 2:
            size, at = _varint(view, at)
        else:
            size = {1: 8, 5: 4}.get(kind, len(view))
        if at + size > len(view):
            raise IndexError("a field reaches beyond the end")
        yield tag >> 3, view[at : at + size]
        at += size


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise IndexError("a number is too long")
