"""Tensor descriptions, functions, node options and values to messages and back, of graphs and compiled graphs."""

from __future__ import annotations

from dataclasses import replace

from dflow_core.errors import PackagingError
from dflow_core.proto import types_pb2 as pb
from dflow_core.types import DataType, FuncSpec, NodeOptions, TensorSpec

_INT64 = range(-(1 << 63), 1 << 63)
_MAX_LIST_DEPTH = 16


def serialize_spec(spec: TensorSpec) -> pb.TensorSpec:
    """A tensor's description as a message."""
    return pb.TensorSpec(dtype=spec.dtype, has_shape=spec.shape is not None, shape=spec.shape or (), name=spec.name)


def deserialize_spec(proto: pb.TensorSpec) -> TensorSpec:
    """The inverse of `serialize_spec`.

    Raises:
        ValueError: there is no such data type.
    """
    return TensorSpec(DataType(proto.dtype), tuple(proto.shape) if proto.has_shape else None, proto.name)


def serialize_func(func: FuncSpec) -> pb.ProcessFunc:
    """A function of a process point as a message."""
    return pb.ProcessFunc(
        name=func.name, in_index=func.inputs, out_index=func.outputs, gather=func.gather,
        holds_inputs=func.holds_inputs, stream_input=func.stream_input, n_mapping=func.n_mapping,
        generator=func.generator,
    )


def deserialize_func(proto: pb.ProcessFunc) -> FuncSpec:
    """The inverse of `serialize_func`."""
    return FuncSpec(
        proto.name, tuple(proto.in_index), tuple(proto.out_index), gather=proto.gather,
        holds_inputs=proto.holds_inputs, stream_input=proto.stream_input, n_mapping=proto.n_mapping,
        generator=proto.generator,
    )


def serialize_options(options: NodeOptions) -> pb.NodeOptions:
    """How a node wants to be run, as a message."""
    return pb.NodeOptions(
        instances=options.instances, threads=options.threads, env=options.env, call_timeout=options.call_timeout,
        on_error=options.on_error, restarts=options.restarts, process=options.process, dispatch=options.dispatch,
        when_lost=options.when_lost, restart_window=options.restart_window, restart_delay=options.restart_delay,
        restart_delay_max=options.restart_delay_max, align_max_cache=options.align_max_cache,
        align_timeout=options.align_timeout, align_drop=options.align_drop,  # type: ignore[arg-type]  # None leaves it out
    )


def deserialize_options(proto: pb.NodeOptions) -> NodeOptions:
    """The inverse of `serialize_options`."""
    known = NodeOptions(
        proto.instances, proto.threads, proto.env, proto.call_timeout, proto.on_error, proto.restarts, proto.process,
        proto.dispatch, proto.when_lost or "restart",
        align_max_cache=proto.align_max_cache if proto.HasField("align_max_cache") else None,
        align_timeout=proto.align_timeout if proto.HasField("align_timeout") else None,
        align_drop=proto.align_drop if proto.HasField("align_drop") else None,
    )
    if not proto.restart_window:
        return known
    return replace(
        known, restart_window=proto.restart_window, restart_delay=proto.restart_delay,
        restart_delay_max=proto.restart_delay_max,
    )


def serialize_value(value: object, what: str, depth: int = 0) -> pb.Value:
    """An attribute or init parameter as a message; the type it has is kept.

    Args:
        value: str, bool, int (64 bit), float, DataType, or lists of them.
        what: What it is the value of, for the error.
        depth: How many lists it lies in.

    Raises:
        PackagingError: it is of another type, or lies too deep.
    """
    if isinstance(value, bool):
        return pb.Value(flag=value)
    if isinstance(value, DataType):
        return pb.Value(data_type=value)
    if isinstance(value, int) and value in _INT64:
        return pb.Value(integer=int(value))
    if isinstance(value, float):
        return pb.Value(number=value)
    if isinstance(value, str):
        return pb.Value(text=value)
    if isinstance(value, (list, tuple)) and depth < _MAX_LIST_DEPTH:
        return pb.Value(list=pb.ListValue(items=[serialize_value(item, what, depth + 1) for item in value]))
    shown = f"{value!r:.80} ({type(value).__name__})"
    raise PackagingError(
        f"{what} cannot be {shown}", hint="use str, bool, int (64 bit), float, DataType, or lists of them"
    )


def deserialize_value(proto: pb.Value, depth: int = 0) -> object:
    """The inverse of `serialize_value`.

    Raises:
        ValueError: there is no value, or it is nested too deep.
    """
    kind = proto.WhichOneof("kind")
    if kind is None or depth > _MAX_LIST_DEPTH:
        raise ValueError("a value that is none")
    if kind == "list":
        return [deserialize_value(item, depth + 1) for item in proto.list.items]
    if kind == "data_type":
        return DataType(proto.data_type)
    found: object = getattr(proto, kind)
    return found
