"""What the caller gives and gets: values bound to inputs and checked, results made of messages."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dflow_core.errors import DflowError, PackagingError, TensorError, UsageError
from dflow_core.graph import FlowData, FlowGraph, FlowOutput
from dflow_core.message import FeedInfo, FlowMsg, MsgType, decode
from dflow_core.types import Tensor, TensorSpec, data_type_of, is_plain_array

if TYPE_CHECKING:
    from dflow_core.executor import Outcome


def bind_inputs(
    graph: FlowGraph, args: Sequence[object], named: Mapping[FlowData | str, object] | Mapping[str, object],
    *, partial: bool = False,
) -> dict[int, object]:
    """Values by input index.

    Raises:
        UsageError: for an unknown input (with near names), one given twice, or one left out.
    """
    if len(args) == len(graph.inputs) and not named:
        return dict(enumerate(args))
    names = list(graph.input_names)
    if len(args) > len(names):
        raise UsageError(f"graph {graph.name!r} has {len(names)} inputs ({', '.join(names)}), got {len(args)} values")
    bound: dict[int, object] = dict(enumerate(args))
    for key, value in named.items():
        index = _input_index(graph, names, key)
        if index in bound:
            raise UsageError(f"input {names[index]!r} of graph {graph.name!r} was given twice")
        bound[index] = value
    missing = [name for index, name in enumerate(names) if index not in bound]
    if missing and not partial:
        raise UsageError(
            f"graph {graph.name!r} misses a value for input {', '.join(map(repr, missing))}",
            hint="feed all inputs, or use feed(..., partial=True)",
        )
    return bound


def _input_index(graph: FlowGraph, names: Sequence[str], key: FlowData | str) -> int:
    if isinstance(key, FlowData):
        for index, known in enumerate(graph.inputs):
            if known is key:
                return index
        raise UsageError(f"FlowData {key.name!r} is not an input of graph {graph.name!r}: it has {', '.join(names)}")
    if key in names:
        return names.index(key)
    near = difflib.get_close_matches(str(key), names, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"its inputs are {', '.join(names)}"
    raise UsageError(f"graph {graph.name!r} has no input {key!r}", hint=hint)


def check_values(graph: FlowGraph, bound: Mapping[int, object], specs: Sequence[Sequence[TensorSpec]]) -> None:
    """Check fed values against the schema of their input and against the models that read it.

    Args:
        graph: For names.
        bound: Values by input index; None is a null message and fits everywhere.
        specs: What the models behind each input take.

    Raises:
        TensorError: at the first value that cannot fit.
    """
    for index, value in bound.items():
        schema = graph.inputs[index].schema
        if schema is None and not specs[index]:
            continue
        wanted = [*([schema] if schema is not None else []), *specs[index]]
        if value is None:
            continue
        name = graph.input_names[index]
        if isinstance(value, Tensor):
            dtype, shape = value.dtype or data_type_of(value.data.dtype), value.data.shape
        elif is_plain_array(value) or isinstance(value, np.generic):
            dtype, shape = data_type_of(value.dtype), value.shape
        else:
            raise TensorError(
                f"input {name!r} takes a tensor {wanted[0]}, got a {type(value).__name__}",
                hint="feed a numpy array" + (", not a subclass" if isinstance(value, np.ndarray) else ""),
            )
        for spec in wanted:
            problem = spec.mismatch(dtype, shape)
            if problem is not None:
                raise TensorError(f"input {name!r}: {problem}", hint=_conversion_hint(spec, problem))


def _conversion_hint(spec: TensorSpec, problem: str) -> str | None:
    if "dtype" not in problem:
        return None
    return f"convert it with .astype(np.{_NUMPY_NAMES.get(spec.dtype.name, spec.dtype.name.lower())})"


_NUMPY_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "BOOL": "bool_"}


def output_indexes(graph: FlowGraph, wanted: Sequence[FlowOutput | str | int] | None) -> list[int] | None:
    """Indexes of the outputs a caller wants; None is all.

    Raises:
        UsageError: for an unknown output (with near names) or one asked for twice.
    """
    if wanted is None:
        return None
    names = list(graph.output_names)
    indexes = [_output_index(graph, names, key) for key in wanted]
    if len(set(indexes)) != len(indexes):
        raise UsageError("an output was asked for twice")
    return indexes


def _output_index(graph: FlowGraph, names: Sequence[str], key: FlowOutput | str | int) -> int:
    if isinstance(key, FlowOutput):
        for index, known in enumerate(graph.outputs):
            if known.node is key.node and known.index == key.index:
                return index
    elif isinstance(key, int):
        if 0 <= key < len(names):
            return key
    elif key in names:
        return names.index(key)
    near = difflib.get_close_matches(str(key), names, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else f"its outputs are {', '.join(names)}"
    raise UsageError(f"graph {graph.name!r} has no output {key!r}", hint=hint)


def to_values(outcome: Outcome, chosen: Sequence[int] | None, copy: bool) -> object:
    """What a result is to the caller: one value, or a tuple with one per output; None where one was skipped."""
    if chosen is None and len(outcome.messages) == 1:
        return _value(outcome.messages[0], copy)
    messages = outcome.messages if chosen is None else [outcome.messages[index] for index in chosen]
    values = tuple(_value(msg, copy) for msg in messages)
    return values[0] if len(values) == 1 else values


def to_result(outcome: Outcome, chosen: Sequence[int] | None, copy: bool, with_info: bool) -> object:
    """`to_values`, or `(value, FeedInfo)` for those who want to know where it comes from."""
    value = to_values(outcome, chosen, copy)
    if not with_info:
        return value
    first = next(msg for msg in outcome.messages if msg is not None)
    return value, FeedInfo.of(first.info, outcome.versions)


def value_or_error(outcome: Outcome, copy: bool, with_info: bool) -> tuple[object, DflowError | None]:
    """What an outcome is to the caller, or why it is nothing: it failed, or what came cannot be made again here."""
    if outcome.error is not None:
        return None, outcome.error
    try:
        return to_result(outcome, None, copy, with_info), None
    except PackagingError as error:
        return None, error


def _value(msg: FlowMsg | None, copy: bool) -> object:
    if msg is None:
        return None
    if copy and msg.info.msg_type == MsgType.PICKLED and msg.body is not None:
        # Arrays in an object lie in the message: those of a copy of it are writable, unless what was sent was not.
        msg = FlowMsg(msg.info, msg.body.copy(), msg.aux)
    try:
        value = decode(msg)
    except PackagingError as error:
        error.trans_id = msg.info.trans_id
        raise
    return value.copy() if copy and isinstance(value, np.ndarray) else value
