"""Control messages to bytes and back, and their framing: a length of four bytes, then protobuf.

Also the front door for the messages themselves (`control.py`); only who supervises or is supervised needs them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from google.protobuf.message import DecodeError

from dflow_core.errors import PeerGoneError
from dflow_core.model.control import (
    ControlMessage,
    Failure,
    Fatal,
    InstanceDone,
    InstanceState,
    LoadFailed,
    LoadRequest,
    Obeyed,
    Order,
    OrderKind,
    Ready,
    Status,
    StatusRequest,
    Stop,
)
from dflow_core.model.dead_part import DeadPart
from dflow_core.model.deploy_plan import InstancePlan, InvokedPlan, ProcessPlan, Route
from dflow_core.model.exception_note import ExceptionNote
from dflow_core.proto import control_pb2 as pb

__all__ = [
    "MAX_MESSAGE",
    "ControlMessage",
    "ControlReader",
    "ExceptionNote",
    "Failure",
    "Fatal",
    "InstanceDone",
    "InstanceState",
    "LoadFailed",
    "LoadRequest",
    "Obeyed",
    "Order",
    "OrderKind",
    "Ready",
    "Status",
    "StatusRequest",
    "Stop",
    "deserialize_control",
    "failure_from_proto",
    "failure_to_proto",
    "frame_control",
    "note_from_proto",
    "note_to_proto",
    "process_from_proto",
    "process_to_proto",
    "serialize_control",
]

MAX_MESSAGE = 64 << 20
_LENGTH = struct.Struct("<I")


class ControlReader:
    """Takes bytes as they come off a socket and gives whole messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[ControlMessage]:
        """The messages that are complete now that `data` has come.

        Raises:
            PeerGoneError: if the bytes are no control messages; the connection is of no use any more.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_MESSAGE:
                raise PeerGoneError(f"the control connection carries garbage: a message of {length} bytes")
            if len(self._buffer) < _LENGTH.size + length:
                return
            content = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
            del self._buffer[: _LENGTH.size + length]
            yield deserialize_control(content)


def frame_control(message: ControlMessage) -> bytes:
    """A message with its length in front."""
    content = serialize_control(message)
    if len(content) > MAX_MESSAGE:
        raise PeerGoneError(f"a control message of {len(content)} bytes is over the limit of {MAX_MESSAGE}")
    return _LENGTH.pack(len(content)) + content


def serialize_control(message: ControlMessage) -> bytes:
    """A message as protobuf."""
    proto = pb.ControlMessage()
    if isinstance(message, LoadRequest):
        proto.load_request.CopyFrom(_load_request_proto(message))
    elif isinstance(message, Ready):
        proto.ready.SetInParent()
    elif isinstance(message, LoadFailed):
        proto.load_failed.failure.CopyFrom(failure_to_proto(message.failure))
    elif isinstance(message, Fatal):
        proto.fatal.failure.CopyFrom(failure_to_proto(message.failure))
    elif isinstance(message, InstanceDone):
        proto.instance_done.CopyFrom(pb.InstanceDone(model=message.model, index=message.index))
    elif isinstance(message, Stop):
        proto.stop.CopyFrom(pb.Stop(drain=message.drain))
    elif isinstance(message, StatusRequest):
        proto.status_request.CopyFrom(pb.StatusRequest(number=message.number))
    elif isinstance(message, Order):
        proto.order.CopyFrom(pb.Order(kind=message.kind.value, number=message.number))
    elif isinstance(message, Obeyed):
        proto.obeyed.CopyFrom(pb.Obeyed(number=message.number, quiet=message.quiet))
    elif isinstance(message, ExceptionNote):
        proto.exception.CopyFrom(note_to_proto(message))
    else:
        states = [_state_proto(state) for state in message.instances]
        proto.status.CopyFrom(pb.Status(number=message.number, instances=states))
    data: bytes = proto.SerializeToString()
    return data


def deserialize_control(data: bytes) -> ControlMessage:
    """The inverse of `serialize_control`.

    Raises:
        PeerGoneError: if the bytes are no control message.
    """
    try:
        proto = pb.ControlMessage.FromString(data)
    except DecodeError as cause:
        raise PeerGoneError(f"the control connection carries garbage: {cause}") from cause
    kind = proto.WhichOneof("content")
    if kind is None:
        raise PeerGoneError("the control connection carries a message of an unknown kind")
    return _READERS[kind](proto)


def _load_request_proto(message: LoadRequest) -> pb.LoadRequest:
    return pb.LoadRequest(
        process=process_to_proto(message.process),
        models=message.models,
        options=dict(message.options),
        group_scheme=message.group_scheme,
        group_token=message.group_token,
        group_fds=message.group_fds,
        dead_parts=[
            pb.DeadPart(model=p.model, index=p.index, trans_id=p.trans_id, data_label=p.data_label, ports=p.ports)
            for p in message.dead_parts
        ],
        builtins=message.builtins,
        all_plugins_allowed=message.allowed_plugins is None,
        allowed_plugins=message.allowed_plugins or (),
        hold=message.hold,
    )


def _load_request(proto: pb.LoadRequest) -> LoadRequest:
    return LoadRequest(
        process=process_from_proto(proto.process),
        models=tuple(proto.models),
        options=dict(proto.options),
        group_scheme=proto.group_scheme,
        group_token=proto.group_token,
        group_fds=proto.group_fds,
        dead_parts=tuple(
            DeadPart(p.model, p.index, p.trans_id, p.data_label, tuple(p.ports)) for p in proto.dead_parts
        ),
        builtins=tuple(proto.builtins),
        allowed_plugins=None if proto.all_plugins_allowed else tuple(proto.allowed_plugins),
        hold=proto.hold,
    )


def process_to_proto(plan: ProcessPlan) -> pb.Process:
    """A process plan as protobuf has it."""
    instances = [
        pb.Instance(
            model=i.model, index=i.index, count=i.count, process=i.process, device=i.device, threads=i.threads,
            inputs=i.inputs, notices=dict(i.notices),
            outputs=map(_routes_proto, i.outputs),
            invoked=[
                pb.Invoked(key=one.key, inputs=map(_routes_proto, one.inputs), outputs=one.outputs) for one in i.invoked
            ],
        )
        for i in plan.instances
    ]
    return pb.Process(
        name=plan.name, engine=plan.engine, env=plan.env, instances=instances, machine=plan.machine
    )


def process_from_proto(proto: pb.Process) -> ProcessPlan:
    """The inverse of `process_to_proto`."""
    instances = tuple(
        InstancePlan(
            i.model, i.index, i.count, i.process, i.device, i.threads, tuple(i.inputs),
            tuple(map(_routes, i.outputs)), dict(i.notices),
            tuple(InvokedPlan(one.key, tuple(map(_routes, one.inputs)), tuple(one.outputs)) for one in i.invoked),
        )
        for i in proto.instances
    )
    return ProcessPlan(proto.name, proto.engine, proto.env, instances, proto.machine)


def _routes_proto(routes: Sequence[Route]) -> pb.Output:
    return pb.Output(routes=[pb.Route(queues=route.queues, by=route.by, spares=route.spares) for route in routes])


def _routes(proto: pb.Output) -> tuple[Route, ...]:
    return tuple(Route(tuple(route.queues), route.by, route.spares) for route in proto.routes)


def note_to_proto(note: ExceptionNote) -> pb.ExceptionNote:
    """An exception note as protobuf has it."""
    return pb.ExceptionNote(
        trans_id=note.trans_id, code=note.code, user_context_id=note.user_context_id, head=note.head, node=note.node,
        instance=note.instance, function=note.function, expired=note.expired,
    )


def note_from_proto(proto: pb.ExceptionNote) -> ExceptionNote:
    """The inverse of `note_to_proto`."""
    return ExceptionNote(
        proto.trans_id, proto.code, proto.user_context_id, proto.head, proto.node, proto.instance, proto.function,
        proto.expired,
    )


def failure_to_proto(failure: Failure) -> pb.Failure:
    """A failure as protobuf has it."""
    return pb.Failure(
        kind=_text(failure.kind), message=_text(failure.message), traceback=_text(failure.traceback),
        node=failure.node, instance=failure.instance, hint=_text(failure.hint), trans_id=failure.trans_id,
        input_shapes=failure.input_shapes,
    )


def failure_from_proto(proto: pb.Failure) -> Failure:
    """The inverse of `failure_to_proto`."""
    return Failure(
        proto.kind, proto.message, proto.traceback, proto.node, proto.instance, proto.hint, proto.trans_id,
        tuple(proto.input_shapes),
    )


def _text(text: str) -> str:
    """Text as protobuf takes it: exception texts may hold lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _state_proto(state: InstanceState) -> pb.InstanceState:
    trans_id, age = state.current or (0, 0.0)
    return pb.InstanceState(
        model=state.model, index=state.index, calls=state.calls, busy=state.busy,
        in_call=state.current is not None, trans_id=trans_id, call_age=age,
    )


def _status(proto: pb.Status) -> Status:
    states = tuple(
        InstanceState(s.model, s.index, s.calls, s.busy, (s.trans_id, s.call_age) if s.in_call else None)
        for s in proto.instances
    )
    return Status(proto.number, states)


def _order(proto: pb.Order) -> Order:
    try:
        return Order(OrderKind(proto.kind), proto.number)
    except ValueError as cause:
        raise PeerGoneError(f"the control connection carries an unknown order: {proto.kind!r}") from cause


_READERS: Mapping[str, Callable[[pb.ControlMessage], ControlMessage]] = {
    "load_request": lambda proto: _load_request(proto.load_request),
    "ready": lambda proto: Ready(),
    "load_failed": lambda proto: LoadFailed(failure_from_proto(proto.load_failed.failure)),
    "fatal": lambda proto: Fatal(failure_from_proto(proto.fatal.failure)),
    "instance_done": lambda proto: InstanceDone(proto.instance_done.model, proto.instance_done.index),
    "stop": lambda proto: Stop(proto.stop.drain),
    "status_request": lambda proto: StatusRequest(proto.status_request.number),
    "status": lambda proto: _status(proto.status),
    "order": lambda proto: _order(proto.order),
    "obeyed": lambda proto: Obeyed(proto.obeyed.number, proto.obeyed.quiet),
    "exception": lambda proto: note_from_proto(proto.exception),
}
