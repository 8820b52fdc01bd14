"""The files that an ONNX model keeps its weights in, for engines; read from its bytes without a model library.

Field numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from dflow_core.graph.wire import WireBuffer, WireMessage

_EXTERNAL = 1


def onnx_weight_files(buffer: WireBuffer) -> tuple[str, ...]:
    """Relative names of the files that hold weights of the model, sorted.

    Raises:
        WireError: if the bytes are no ONNX model.
    """
    if buffer.find(b"location") < 0:
        return ()
    found: set[str] = set()
    model = WireMessage.whole(buffer)
    for part in model.fields():
        if part.number == 7:
            _graph_files(model.inner(part), found)
        elif part.number == 25:
            function = model.inner(part)
            for inner in function.fields():
                if inner.number == 7:
                    _node_files(function.inner(inner), found)
    return tuple(sorted(found))


def _graph_files(graph: WireMessage, found: set[str]) -> None:
    for part in graph.fields():
        if part.number == 1:
            _node_files(graph.inner(part), found)
        elif part.number == 5:
            _tensor_files(graph.inner(part), found)
        elif part.number == 15:
            _sparse_files(graph.inner(part), found)


def _node_files(node: WireMessage, found: set[str]) -> None:
    for part in node.fields():
        if part.number != 5:
            continue
        attribute = node.inner(part)
        for value in attribute.fields():
            if value.number in (5, 10):
                _tensor_files(attribute.inner(value), found)
            elif value.number in (6, 11):
                _graph_files(attribute.inner(value), found)
            elif value.number in (22, 23):
                _sparse_files(attribute.inner(value), found)


def _sparse_files(sparse: WireMessage, found: set[str]) -> None:
    for part in sparse.fields():
        if part.number in (1, 2):
            _tensor_files(sparse.inner(part), found)


def _tensor_files(tensor: WireMessage, found: set[str]) -> None:
    location, external = "", False
    for part in tensor.fields():
        if part.number == 14:
            external = tensor.number(part) == _EXTERNAL
        elif part.number == 13:
            entry = tensor.inner(part)
            texts = {f.number: entry.text(f) for f in entry.fields() if f.number in (1, 2)}
            location = texts.get(2, "") if texts.get(1) == "location" else location
    if external and location:
        found.add(location)
