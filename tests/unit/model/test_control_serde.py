"""Control messages survive the wire; what is no control message is refused."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.errors import PeerGoneError
from dflow_core.model import DeadPart, InstancePlan, InvokedPlan, ProcessPlan, Route
from dflow_core.model.control_serde import (
    MAX_MESSAGE,
    ControlReader,
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
    deserialize_control,
    frame_control,
    serialize_control,
)

INSTANCE = InstancePlan(
    "outer/模型", 1, 2, "p", "cpu:0", 3, ("q->a:0", "q->a:1"),
    ((Route(("x",)), Route(("y@0", "y@1"), "load", 1)), ()), {"x": "dropped: x"},
    (InvokedPlan("k", ((Route(("k->b:0",)),), ()), ("b:0->k:0",)),),
)
MESSAGES = [
    LoadRequest(ProcessPlan("p", "UDF", "", (INSTANCE,)), ("outer/模型",)),
    LoadRequest(
        ProcessPlan("p", "CPU", "/venv", (INSTANCE, INSTANCE)), ("a", "b"), {"k": "v"}, "shm", b"\0token", 2,
        (DeadPart("a", 0, 2**64 - 2, 7, (0, 3)),), ("builtin",), ("one", "two"),
    ),
    LoadRequest(ProcessPlan("p", "CPU", "", ()), (), allowed_plugins=()),
    Ready(),
    LoadFailed(Failure("ValueError", "no", "Traceback", "node", 3, "hint", 7, ("float[3]",))),
    Fatal(Failure("", "")),
    InstanceDone("a", 4),
    Stop(True),
    Stop(False),
    StatusRequest(2**63),
    Status(1, (InstanceState("a", 0, 10, 1.5, (7, 0.25)), InstanceState("a", 1))),
    Status(0),
    LoadRequest(ProcessPlan("p", "UDF", "", ()), (), hold=True),
    *(Order(kind, 3) for kind in OrderKind),
    Obeyed(2**63),
    Obeyed(1, False),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_back_equal(message):
    assert deserialize_control(serialize_control(message)) == message


def test_a_request_counts_its_descriptors():
    assert MESSAGES[1].fd_count == 4


@given(st.lists(st.integers(1, 40), min_size=1, max_size=200))
def test_messages_are_found_however_the_stream_is_cut(cuts):
    stream = b"".join(map(frame_control, MESSAGES))
    reader, at, found = ControlReader(), 0, []
    for cut in cuts:
        found += reader.feed(stream[at : at + cut])
        at += cut
    found += reader.feed(stream[at:])
    assert found == MESSAGES


def test_text_that_is_no_unicode_still_travels():
    """BC-070: exception texts may hold lone surrogates."""
    back = deserialize_control(serialize_control(LoadFailed(Failure("E", "bad \udcff", "tb \ud800"))))
    assert back == LoadFailed(Failure("E", "bad \\udcff", "tb \\ud800"))


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(data):
    with contextlib.suppress(PeerGoneError):
        deserialize_control(data)


def test_a_message_of_no_known_kind_is_refused():
    with pytest.raises(PeerGoneError, match="unknown kind"):
        deserialize_control(b"")


def test_an_absurd_length_is_refused_before_anything_is_read():
    with pytest.raises(PeerGoneError, match="garbage"):
        list(ControlReader().feed(struct.pack("<I", MAX_MESSAGE + 1)))


def test_a_message_over_the_limit_is_not_sent(monkeypatch):
    monkeypatch.setattr("dflow_core.model.control_serde.MAX_MESSAGE", 10)
    with pytest.raises(PeerGoneError, match="over the limit"):
        frame_control(MESSAGES[1])
