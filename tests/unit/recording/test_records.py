"""What a recording says, as frames and back; and what is no record."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from dflow_core.errors import ModelFormatError
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, HeapBlock, Member, MsgInfo, encode
from dflow_core.model import Frame, read_frame
from dflow_core.recording.records import End, FailedCall, Fed, ResultDigest, fed_chunks, message_bytes, message_of

ERROR = ErrorInfo("node", "bad \udcff", "ValueError", "n", 2, "trace", ("double[2]",), "a hint")


def batch() -> FlowMsg:
    members = tuple(Member(MsgInfo(trans_id=n, token=n), 1) for n in (4, 5))
    return encode(np.arange(6.0).reshape(2, 3), MsgInfo(trans_id=4, user_data=b"mine"), HeapBlock, Aux(members))


@pytest.mark.parametrize("make", [
    batch, lambda: encode(None, MsgInfo(trans_id=1)), lambda: encode({"a": np.ones(3)}, MsgInfo(trans_id=1)),
    lambda: encode(np.array(["深度", ""]), MsgInfo(trans_id=1)),
    lambda: FlowMsg(MsgInfo(trans_id=3, data_flag=DataFlag.ERROR), None, Aux(error=ERROR)),
])
def test_message_is_the_same_from_its_bytes(make: Callable[[], FlowMsg]) -> None:
    msg = make()
    again = message_of(message_bytes(msg))
    assert message_bytes(again) == message_bytes(msg)
    assert (again.info.trans_id, again.aux.pack()) == (msg.info.trans_id, msg.aux.pack())
    assert (again.body is None) == (msg.body is None)


@pytest.mark.parametrize("head", [None, FlowMsg(MsgInfo(trans_id=9, data_label=3))])
def test_failed_call_is_the_same_from_its_frame(head: FlowMsg | None) -> None:
    call = FailedCall("n", 2, 1, head, (batch(), encode(np.ones(1), MsgInfo(trans_id=6))), ERROR)
    again = FailedCall.from_frame(call.to_frame())
    assert (again.node, again.instance, again.function, again.error) == ("n", 2, 1, ERROR)
    assert list(map(message_bytes, again.inputs)) == list(map(message_bytes, call.inputs))
    assert again.trans_ids == call.trans_ids == ((4, 5, 6) if head is None else (4, 5, 6, 9))
    assert (again.head is None) == (head is None)


def fed_frame(at: float, messages: Mapping[int, FlowMsg]) -> Frame:
    """What is fed, as the recorder writes it: in blocks larger than the messages."""
    blocks = {}
    for port, msg in messages.items():
        data = message_bytes(msg)
        blocks[port] = HeapBlock(len(data) + 100)
        blocks[port].array(writable=True)[: len(data)] = np.frombuffer(data, np.uint8)
    return read_frame(b"".join(fed_chunks(at, blocks)))


def test_fed_and_end_are_the_same_from_their_frames() -> None:
    messages = {1: batch(), 0: encode(None, MsgInfo(trans_id=7), HeapBlock)}
    fed = Fed.from_frame(7, fed_frame(1.5, messages))
    assert fed == Fed(7, 1.5, {port: message_bytes(msg) for port, msg in messages.items()})
    end = End("error", 0.25, {"type": "NodeError", "node": None}, (ResultDigest.of(1, batch()),), (4, 5))
    assert End.from_frame(end.to_frame()) == end


def test_digests_are_of_tensors_and_tell_values_shapes_and_types_apart() -> None:
    arrays = [np.zeros(4, np.float32), np.zeros((2, 2), np.float32), np.zeros(4, np.int32), np.ones(4, np.float32)]
    digests = [ResultDigest.of(0, encode(array, MsgInfo(trans_id=n))).digest for n, array in enumerate(arrays)]
    assert len(set(digests)) == 4 and all(digests)
    assert ResultDigest.of(0, encode(arrays[0], MsgInfo(trans_id=9, start_time=5))).digest == digests[0]
    for value in (None, {"a": 1}):
        assert ResultDigest.of(0, encode(value, MsgInfo(trans_id=1))).digest == ""


def changed(frame: Frame, **fields: object) -> Frame:
    return replace(frame, head=json.dumps({**json.loads(frame.head), **fields}).encode())


CALL = FailedCall("n", 0, 0, None, (batch(),), ERROR).to_frame()
FED = fed_frame(0.0, {0: batch()})
END = End("result", 0.0).to_frame()


@pytest.mark.parametrize(
    ("read", "frame"),
    [
        (FailedCall.from_frame, Frame(b"\xff")), (FailedCall.from_frame, Frame(b"[]")),
        (FailedCall.from_frame, Frame(b"{}")), (FailedCall.from_frame, changed(CALL, function="0")),
        (FailedCall.from_frame, changed(CALL, error=3)), (FailedCall.from_frame, changed(CALL, error={"more": 1})),
        (FailedCall.from_frame, changed(replace(CALL, sections=()), has_head=True)),
        (FailedCall.from_frame, replace(CALL, sections=(b"short",))),
        (FailedCall.from_frame, replace(CALL, sections=(CALL.sections[0] + b"x",))),
        (lambda frame: Fed.from_frame(1, frame), changed(FED, ports=[0, 1])),
        (lambda frame: Fed.from_frame(1, frame), changed(FED, at="noon")),
        (End.from_frame, changed(END, results=[[1, 2]])), (End.from_frame, changed(END, together="x")),
        (End.from_frame, changed(END, error=5)),
    ],
)
def test_record_that_says_something_else_is_refused(read: Callable[[Frame], object], frame: Frame) -> None:
    with pytest.raises(ModelFormatError):
        read(frame)
