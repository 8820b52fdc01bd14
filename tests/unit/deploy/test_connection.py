"""The application's end of a control connection, and the framing of the template's."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.deploy.children.connection import Connection
from dflow_core.deploy.children.forkserver import MAX_REQUEST, JsonReader, frame_json
from dflow_core.errors import PeerGoneError
from dflow_core.model import ProcessPlan
from dflow_core.model.control_serde import ControlReader, LoadRequest, Ready, Stop, frame_control


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    """A connection and its peer."""
    near, far = socket.socketpair()
    connection = Connection(near)
    yield connection, far
    connection.close()
    connection.close()
    far.close()


def test_messages_go_both_ways(ends):
    connection, far = ends
    assert connection.receive() == []
    connection.send(Stop(True))
    assert list(ControlReader().feed(far.recv(1000))) == [Stop(True)]
    far.sendall(frame_control(Ready()) * 2)
    assert connection.receive() == [Ready(), Ready()]


def test_descriptors_travel_along(ends):
    connection, far = ends
    read, write = os.pipe()
    request = LoadRequest(ProcessPlan("p", "X", "", ()), ("m",))
    connection.send(request, [write])
    os.close(write)
    data, fds, _, _ = socket.recv_fds(far, 1000, 10)
    assert list(ControlReader().feed(data)) == [request]
    os.write(fds[0], b"x")
    assert os.read(read, 1) == b"x"
    os.close(fds[0])
    os.close(read)


def test_what_does_not_fit_waits_and_nothing_blocks(ends):
    connection, far = ends
    message = LoadRequest(ProcessPlan("p", "X", "", ()), (), {"key": "v" * 3_000_000})
    connection.send(message, [far.fileno()])
    assert connection.wants_write
    reader, found = ControlReader(), []
    while not found:
        data, fds, _, _ = socket.recv_fds(far, 1 << 20, 10)
        for fd in fds:
            os.close(fd)
        found += reader.feed(data)
        connection.flush()
    assert found == [message] and not connection.wants_write


def test_the_end_of_the_peer_is_seen(ends):
    connection, far = ends
    far.sendall(frame_control(Ready()))
    far.close()
    assert connection.receive() == [Ready()]
    assert connection.receive() is None
    connection.send(Stop(False))
    connection.send(Stop(False), [0])
    assert connection.broken and not connection.wants_write


def test_garbage_is_an_error(ends):
    connection, far = ends
    far.sendall(b"\xff" * 100)
    with pytest.raises(PeerGoneError):
        connection.receive()


def test_the_peer_sees_the_end_also_while_a_fork_holds_a_copy(ends):
    connection, far = ends
    copy = os.dup(connection.fileno())
    connection.close()
    assert far.recv(1) == b""
    os.close(copy)


@given(st.lists(st.integers(1, 9), max_size=60))
def test_requests_are_found_however_the_stream_is_cut(cuts):
    requests = [{"number": 1, "settings": "模型"}, {"pid": 7, "code": -11}, {}]
    stream = b"".join(map(frame_json, requests))
    reader, at, found = JsonReader(), 0, []
    for cut in cuts:
        found += reader.feed(stream[at : at + cut])
        at += cut
    assert found + list(reader.feed(stream[at:])) == requests


def test_an_absurd_request_is_refused():
    with pytest.raises(ValueError, match="bytes"):
        list(JsonReader().feed(struct.pack("<I", MAX_REQUEST + 1)))
