"""Names of a model file's inputs, and of the files its weights lie in; read from its bytes without a model library."""

from __future__ import annotations

from collections.abc import Iterator

_ONNX_GRAPH, _ONNX_INITIALIZER, _ONNX_INPUT = 7, 5, 11
_TENSOR_NAME, _TENSOR_EXTERNAL = 8, 13
_TF_NODE, _TF_NAME, _TF_OP = 1, 1, 2


class NotAModelError(ValueError):
    """Bytes that are no protobuf message."""


def onnx_inputs(data: bytes) -> tuple[str, ...]:
    """Names of the inputs of an ONNX model that are no weights.

    Raises:
        NotAModelError: the bytes are no message.
    """
    names, weights = list[str](), set[str]()
    for graph in _parts(data, _ONNX_GRAPH):
        names += [_text(part, 1) for part in _parts(graph, _ONNX_INPUT)]
        weights |= {_text(part, _TENSOR_NAME) for part in _parts(graph, _ONNX_INITIALIZER)}
    return tuple(name for name in names if name not in weights)


def onnx_side_files(data: bytes) -> tuple[str, ...]:
    """Names of the files in which weights of an ONNX model lie, relative to it."""
    found: dict[str, None] = {}
    for graph in _parts(data, _ONNX_GRAPH):
        for tensor in _parts(graph, _ONNX_INITIALIZER):
            entries = [(_text(entry, 1), _text(entry, 2)) for entry in _parts(tensor, _TENSOR_EXTERNAL)]
            found |= {value: None for key, value in entries if key == "location"}
    return tuple(found)


def tensorflow_inputs(data: bytes) -> tuple[str, ...]:
    """Names of the placeholders of a frozen TensorFlow graph."""
    return tuple(_text(node, _TF_NAME) for node in _parts(data, _TF_NODE) if _text(node, _TF_OP) == "Placeholder")


def _parts(data: bytes | memoryview, wanted: int) -> Iterator[memoryview]:
    for number, value in _fields(data):
        if number == wanted and isinstance(value, memoryview):
            yield value


def _text(message: memoryview, wanted: int) -> str:
    return next((bytes(part).decode("utf-8", "replace") for part in _parts(message, wanted)), "")


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
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise NotAModelError(f"unknown kind of field {kind}")
        if at + size > len(view):
            raise NotAModelError("a field reaches beyond the end")
        yield tag >> 3, view[at : at + size]
        at += size


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(view):
            raise NotAModelError("the data ends inside a number")
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise NotAModelError("a number is too long")
