"""Names of a model file's inputs and outputs, read from its bytes without a model library."""

from __future__ import annotations

from dflow_core.graph import WireBuffer, WireMessage

_ONNX_GRAPH, _ONNX_INITIALIZER, _ONNX_INPUT, _ONNX_OUTPUT = 7, 5, 11, 12
_VALUE_NAME, _TENSOR_NAME = 1, 8
_TF_NODE, _TF_NAME, _TF_OP = 1, 1, 2


def onnx_ports(data: WireBuffer) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the inputs of an ONNX model that are no weights, and of its outputs.

    Raises:
        WireError: the bytes are no message.
    """
    inputs, outputs, weights = list[str](), list[str](), set[str]()
    for graph in WireMessage.whole(data).parts(_ONNX_GRAPH):
        inputs += [next(part.texts(_VALUE_NAME), "") for part in graph.parts(_ONNX_INPUT)]
        outputs += [next(part.texts(_VALUE_NAME), "") for part in graph.parts(_ONNX_OUTPUT)]
        weights |= {next(part.texts(_TENSOR_NAME), "") for part in graph.parts(_ONNX_INITIALIZER)}
    return tuple(name for name in inputs if name not in weights), tuple(outputs)


def tensorflow_inputs(data: bytes) -> tuple[str, ...]:
    """Names of the placeholders of a frozen TensorFlow graph.

    Raises:
        WireError: the bytes are no message.
    """
    nodes = WireMessage.whole(data).parts(_TF_NODE)
    return tuple(next(node.texts(_TF_NAME), "") for node in nodes if next(node.texts(_TF_OP), "") == "Placeholder")
