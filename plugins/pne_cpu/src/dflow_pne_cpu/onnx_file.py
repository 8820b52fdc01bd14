"""What an ONNX file says about itself: inputs and outputs.

Field numbers are those of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dflow_core.graph import WireBuffer, WireError, WireMessage
from dflow_core.types import DataType, TensorSpec
from dflow_pne_cpu.facts import FileFacts

_DTYPES = {
    1: DataType.FLOAT, 2: DataType.UINT8, 3: DataType.INT8, 4: DataType.UINT16, 5: DataType.INT16, 6: DataType.INT32,
    7: DataType.INT64, 8: DataType.STRING, 9: DataType.BOOL, 10: DataType.FLOAT16, 11: DataType.DOUBLE,
    12: DataType.UINT32, 13: DataType.UINT64, 16: DataType.BF16,
}
_MODEL_FIELDS = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 14, 20, 25, 26})
_OTHER_KINDS = {4: "a sequence", 5: "a map", 7: "an opaque value", 8: "a sparse tensor", 9: "an optional"}


@dataclass(slots=True)
class _Value:
    """One ValueInfoProto, read."""

    spec: TensorSpec
    symbols: tuple[str, ...] = ()
    problem: str = ""


@dataclass(slots=True)
class _Graph:
    inputs: list[_Value] = field(default_factory=list)
    outputs: list[_Value] = field(default_factory=list)
    constants: set[str] = field(default_factory=set)


def read_onnx(buffer: WireBuffer) -> FileFacts:
    """Inputs (without the initialisers) and outputs of an ONNX file.

    Raises:
        WireError: if the bytes are no ONNX model.
    """
    graph = _graph_of(WireMessage.whole(buffer))
    inputs = [value for value in graph.inputs if value.spec.name not in graph.constants]
    if not graph.outputs:
        raise WireError("the graph has no outputs", 0)
    values = [*inputs, *graph.outputs]
    return FileFacts(
        inputs=tuple(value.spec for value in inputs),
        outputs=tuple(value.spec for value in graph.outputs),
        symbols={value.spec.name: value.symbols for value in values},
        unsupported={value.spec.name: value.problem for value in values if value.problem},
    )


def _graph_of(model: WireMessage) -> _Graph:
    graph = None
    for part in model.fields():
        if part.number not in _MODEL_FIELDS:
            raise WireError(f"field {part.number} is none of an ONNX model", part.start)
        if part.number == 7:
            graph = _read_graph(model.inner(part))
    if graph is None:
        raise WireError("no graph in it", 0)
    return graph


def _read_graph(message: WireMessage) -> _Graph:
    graph = _Graph()
    for part in message.fields():
        if part.number == 11:
            graph.inputs.append(_read_value(message.inner(part)))
        elif part.number == 12:
            graph.outputs.append(_read_value(message.inner(part)))
        elif part.number == 5:
            graph.constants.add(_tensor_name(message.inner(part)))
        elif part.number == 15:
            sparse = message.inner(part)
            graph.constants.update(_tensor_name(sparse.inner(f)) for f in sparse.fields() if f.number == 1)
    return graph


def _tensor_name(tensor: WireMessage) -> str:
    return next((tensor.text(part) for part in tensor.fields() if part.number == 8), "")


def _read_value(message: WireMessage) -> _Value:
    name, value = "", _Value(TensorSpec(DataType.UNDEFINED))
    for part in message.fields():
        if part.number == 1:
            name = message.text(part)
        elif part.number == 2:
            value = _read_type(message.inner(part))
    value.spec = TensorSpec(value.spec.dtype, value.spec.shape, name)
    return value


def _read_type(message: WireMessage) -> _Value:
    value = _Value(TensorSpec(DataType.UNDEFINED))
    for part in message.fields():
        if part.number in _OTHER_KINDS:
            value.problem = f"is {_OTHER_KINDS[part.number]}, not a tensor"
        if part.number == 1:
            value = _read_tensor_type(message.inner(part))
    return value


def _read_tensor_type(message: WireMessage) -> _Value:
    code = 0
    shape: list[int] | None = None
    symbols: list[str] = []
    for part in message.fields():
        if part.number == 1:
            code = message.number(part)
        elif part.number == 2:
            shape, symbols = [], []
            dims = message.inner(part)
            for dim_field in dims.fields():
                size, symbol = _read_dim(dims.inner(dim_field))
                shape.append(size)
                symbols.append(symbol)
    dtype = _DTYPES.get(code, DataType.UNDEFINED)
    problem = f"has element type {code}, which dflow cannot send" if code and code not in _DTYPES else ""
    return _Value(TensorSpec(dtype, None if shape is None else tuple(shape)), tuple(symbols), problem)


def _read_dim(message: WireMessage) -> tuple[int, str]:
    size, symbol = -1, ""
    for part in message.fields():
        if part.number == 1:
            size = message.number(part)
        elif part.number == 2:
            symbol = message.text(part)
    return (size if size >= 0 else -1), symbol
