"""Messages between machines to bytes and back: the length of a protobuf message (4 bytes), it, a model behind it."""

from __future__ import annotations

import dataclasses
import struct

from google.protobuf.message import DecodeError

from dflow_core.deploy.machines.talk import Answer, Ask, Broken, Deploy, MachineMessage, Question, Raised
from dflow_core.errors import PeerGoneError
from dflow_core.model import Crossing, DeployPlan, InstancePlace, NodePlacement, QueuePlan
from dflow_core.model.control_serde import (
    failure_from_proto,
    failure_to_proto,
    note_from_proto,
    note_to_proto,
    process_from_proto,
    process_to_proto,
)
from dflow_core.proto import machines_pb2 as pb
from dflow_core.spi import InstanceStatus, QueueStats

_LENGTH = struct.Struct("<I")


def serialize_message(message: MachineMessage) -> bytes:
    """A message as it travels."""
    proto, model, content = pb.MachineMessage(number=message.number), b"", message.content
    if isinstance(content, Deploy):
        proto.deploy.part.CopyFrom(_part_proto(content.plan))
        proto.deploy.options.update(content.options)
        model = content.model
    elif isinstance(content, Ask):
        proto.ask.question, proto.ask.timeout = content.question.value, content.timeout
    elif isinstance(content, Answer):
        proto.answer.CopyFrom(_answer_proto(content))
    elif isinstance(content, Raised):
        proto.raised.CopyFrom(note_to_proto(content.note))
    else:
        proto.broken.CopyFrom(failure_to_proto(content.failure))
    data = proto.SerializeToString()
    return b"".join((_LENGTH.pack(len(data)), data, model))


def deserialize_message(data: bytes | memoryview) -> MachineMessage:
    """The message that bytes are.

    Raises:
        PeerGoneError: they are none.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + length
        if end > len(data):
            raise ValueError(f"{end} bytes are announced, {len(data)} came")
        proto = pb.MachineMessage.FromString(bytes(data[_LENGTH.size : end]))
        return MachineMessage(proto.number, _content(proto, bytes(data[end:])))
    except (struct.error, DecodeError, ValueError) as cause:
        raise PeerGoneError(f"another machine says what cannot be read: {cause}") from cause


def _content(proto: pb.MachineMessage, model: bytes) -> Deploy | Ask | Answer | Raised | Broken:
    kind = proto.WhichOneof("content")
    if kind == "deploy":
        return Deploy(_part(proto.deploy.part), dict(proto.deploy.options), model)
    if kind == "ask":
        return Ask(Question(proto.ask.question), proto.ask.timeout)
    if kind == "answer":
        return _answer(proto.answer)
    if kind == "raised":
        return Raised(note_from_proto(proto.raised))
    if kind == "broken":
        return Broken(failure_from_proto(proto.broken))
    raise ValueError("it says nothing")


def _part_proto(plan: DeployPlan) -> pb.Part:
    return pb.Part(
        graph=plan.graph, transport=plan.transport, cpus=plan.cpus, machine=plan.machine,
        processes=map(process_to_proto, plan.processes),
        queues=[
            pb.Queue(name=q.name, depth=q.depth, overflow=q.overflow, max_age=q.max_age, notices=q.notices)
            for q in plan.queues
        ],
        crossings=[pb.Crossing(queue=c.queue, source=c.source, target=c.target) for c in plan.crossings],
        placements=[
            pb.Placement(node=one.node, dispatch=one.dispatch, places=map(_place_proto, one.places))
            for one in plan.placements
        ],
    )


def _part(proto: pb.Part) -> DeployPlan:
    return DeployPlan(
        proto.graph, proto.transport, tuple(map(process_from_proto, proto.processes)),
        tuple(QueuePlan(q.name, q.depth, q.overflow, q.max_age, q.notices) for q in proto.queues), (), (), proto.cpus,
        placements=tuple(NodePlacement(p.node, tuple(map(_place, p.places)), p.dispatch) for p in proto.placements),
        crossings=tuple(Crossing(c.queue, c.source, c.target) for c in proto.crossings), machine=proto.machine,
    )


def _place_proto(place: InstancePlace) -> pb.Place:
    return pb.Place(
        device=place.device, resource_type=place.resource_type, logical_device=place.logical_device,
        spare=place.spare, visible=place.visible, machine=place.machine,
    )


def _place(proto: pb.Place) -> InstancePlace:
    return InstancePlace(
        proto.device, proto.resource_type, proto.logical_device, proto.spare, proto.visible, proto.machine
    )


def _answer_proto(answer: Answer) -> pb.Answer:
    queues = [pb.QueueStats(**dataclasses.asdict(one)) for one in answer.queues]
    proto = pb.Answer(statuses=map(_status_proto, answer.statuses), stacks=answer.stacks, queues=queues)
    if answer.verdict is not None:
        proto.verdict = answer.verdict
    if answer.failure is not None:
        proto.failure.CopyFrom(failure_to_proto(answer.failure))
    return proto


def _answer(proto: pb.Answer) -> Answer:
    return Answer(
        failure_from_proto(proto.failure) if proto.HasField("failure") else None,
        proto.verdict if proto.HasField("verdict") else None,
        tuple(map(_status, proto.statuses)), dict(proto.stacks),
        tuple(
            QueueStats(
                q.name, q.depth, q.level, q.sent, q.delivered, q.dropped, q.failed, q.oldest_age, q.blocked, q.waiting
            )
            for q in proto.queues
        ),
    )


def _status_proto(one: InstanceStatus) -> pb.InstanceStatus:
    trans_id, age = one.current if one.current is not None else (None, 0.0)
    given_up_age, given_up = one.given_up if one.given_up is not None else (0.0, None)
    return pb.InstanceStatus(
        node=one.node, instance=one.instance, process=one.process, pid=one.pid, state=one.state,
        restarts=one.restarts, calls=one.calls, busy=one.busy, trans_id=trans_id, call_age=age, given_up=given_up,
        given_up_age=given_up_age, failed=one.failed, blocked=one.blocked, waiting=one.waiting,
    )


def _status(proto: pb.InstanceStatus) -> InstanceStatus:
    return InstanceStatus(
        proto.node, proto.instance, proto.process, proto.pid, proto.state, proto.restarts, proto.calls, proto.busy,
        (proto.trans_id, proto.call_age) if proto.HasField("trans_id") else None,
        (proto.given_up_age, proto.given_up) if proto.HasField("given_up") else None,
        proto.failed, proto.blocked, proto.waiting,
    )
