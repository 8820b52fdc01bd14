"""Names that atc gives a model's outputs; ONNX files are read as far as nodes, outputs and their names."""

from __future__ import annotations

from dataclasses import dataclass, field

from dflow_core.graph import WireError, WireMessage

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
        for graph in WireMessage.whole(data).parts(_GRAPH):
            nodes += [_node(part, index) for index, part in enumerate(graph.parts(_NODE), len(nodes))]
            outputs += [name for part in graph.parts(_OUTPUT) for name in part.texts(_VALUE_NAME)]
    except WireError:
        return OnnxGraph()
    makers = {tensor: (node.name, index) for node in nodes for index, tensor in enumerate(node.outputs)}
    return OnnxGraph(tuple(nodes), tuple(outputs), makers)


def node_names(data: bytes) -> list[str]:
    """Names of the nodes of a frozen TensorFlow graph, in the file's order."""
    try:
        return [name for node in WireMessage.whole(data).parts(_TF_NODE) for name in node.texts(_TF_NAME)]
    except WireError:
        return []


def _node(part: WireMessage, index: int) -> OnnxNode:
    kind = next(part.texts(_NODE_TYPE), "")
    name = next(part.texts(_NODE_NAME), "") or f"{kind}_{index}"
    return OnnxNode(name, kind, next(part.texts(_NODE_DOMAIN), ""), tuple(part.texts(_NODE_OUTPUT)))
