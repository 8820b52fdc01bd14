"""A recogniser that answers before its softmax."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dflow_ocr.errors import OcrExampleError

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["logits_model"]


def logits_model(model: Path) -> bytes:
    """Take the softmax off the end of a recogniser's graph.

    Three steps of four are blank or repeat the one before, and nobody asks for their odds: the class is the largest
    logit just as well, and `ctc_decode` computes the odds of the steps it keeps.

    Args:
        model: The recogniser as shipped, with one output of shape [lines, steps, classes].

    Returns:
        An ONNX model with one output of the same shape, the logits (float32).

    Raises:
        OcrExampleError: The file's last node is no softmax.
    """
    import onnx
    from onnx import TensorProto, helper

    held: ModelProto = onnx.load(str(model))
    graph = held.graph
    last = next(node for node in graph.node if graph.output[0].name in node.output)
    if last.op_type != "Softmax":
        raise OcrExampleError(f"{model.name} ends with {last.op_type}, not with Softmax")
    logits = helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, ["lines", "steps", "classes"])
    graph.node.remove(last)
    del graph.output[:]
    graph.output.append(logits)
    return bytes(held.SerializeToString())
