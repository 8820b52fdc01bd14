"""What processes say and how they end, without a process or a thread."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from dflow_core.deploy.children.connection import Connection
from dflow_core.deploy.supervision.wires import Wires
from dflow_core.model.control_serde import ControlMessage, ControlReader, Order, OrderKind, Ready, frame_control


class FakeLoop:
    """What is listened to, and timers; both come when told."""

    def __init__(self) -> None:
        self.heard: dict[int, tuple[Callable[[], None], bool]] = {}
        self.timers: list[Callable[[], None]] = []

    def listen(self, fd: int, call: Callable[[], None], *, writable: bool = False) -> None:
        self.heard[fd] = call, writable

    def forget(self, fd: int) -> None:
        self.heard.pop(fd, None)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds > 0
        self.timers.append(call)

    def pass_time(self) -> None:
        timers, self.timers = self.timers, []
        for call in timers:
            call()


class FakeProcess:
    """As much of a process as wires touch."""

    def __init__(self, connection: Connection, watch_fd: int = -1, forked: bool = True) -> None:
        self.connection, self.watch_fd, self.forked = connection, watch_fd, forked
        self.exited = self.closed = False
        self.kills = self.polls = 0

    def kill(self) -> None:
        self.kills += 1

    def poll(self) -> None:
        self.polls += 1

    def close(self) -> None:
        self.closed = True


class Scene:
    """A process whose far end is in the test's hand."""

    def __init__(self) -> None:
        near, self.far = socket.socketpair()
        self.loop, self.taken = FakeLoop(), []
        self.process = FakeProcess(Connection(near))
        self.wires = Wires(self.loop, self.take)

    def take(self, member: object, message: ControlMessage) -> None:
        assert member == "member"
        self.taken.append(message)

    def join(self, **how: object) -> FakeProcess:
        for name, value in how.items():
            setattr(self.process, name, value)
        self.wires.join("member", self.process)
        return self.process

    @property
    def fd(self) -> int:
        return self.process.connection.fileno()

    def hear(self) -> None:
        self.loop.heard[self.fd][0]()


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Not joined yet."""
    made = Scene()
    yield made
    made.process.connection.close()
    made.far.close()


def test_what_a_process_says_is_taken_in_order(scene) -> None:
    scene.join()
    scene.far.sendall(frame_control(Ready()) + frame_control(Order(OrderKind.GO, 3)))
    scene.hear()
    assert scene.taken == [Ready(), Order(OrderKind.GO, 3)]


def test_whatever_is_sent_by_whomever_goes_on_once_there_is_room(scene) -> None:
    """A process that is stopped for a while, with more orders than fit: none may wait until it says something."""
    connection = scene.join().connection
    assert scene.loop.heard[scene.fd][1] is False
    sent = 0
    while not connection.wants_write:
        connection.send(Order(OrderKind.LOOK, sent))
        sent += 1
    connection.send(Order(OrderKind.RETIRE, sent))
    assert scene.loop.heard[scene.fd][1] is True, "it is told when there is room"
    reader, got = ControlReader(), []
    scene.far.setblocking(False)
    while len(got) <= sent:
        got += reader.feed(scene.far.recv(1 << 20))
        scene.hear()
    assert [order.number for order in got] == list(range(sent + 1)) and got[-1].kind is OrderKind.RETIRE
    scene.hear()
    assert scene.loop.heard[scene.fd][1] is False and not connection.wants_write


def test_one_that_only_closes_its_connection_has_to_go(scene) -> None:
    process = scene.join()
    scene.far.close()
    scene.hear()
    assert scene.loop.heard == {} and process.kills == 0
    process.connection.send(Ready())
    assert scene.loop.heard == {}, "nobody listens to it again"
    scene.loop.pass_time()
    assert process.kills == 1


def test_one_that_talks_nonsense_is_killed_at_once(scene) -> None:
    process = scene.join()
    scene.far.sendall(b"\xff" * 64)
    scene.hear()
    assert process.kills == 1 and scene.taken == [] and scene.loop.heard == {}


def test_last_words_are_taken_and_nonsense_in_them_is_left(scene) -> None:
    process = scene.join()
    scene.far.sendall(frame_control(Ready()))
    scene.wires.take_last_words("member", process)
    scene.far.sendall(b"\xff" * 64)
    scene.wires.take_last_words("member", process)
    scene.far.close()
    scene.wires.take_last_words("member", process)
    assert scene.taken == [Ready()]


def test_an_end_is_noticed_by_the_system_by_the_template_or_by_asking(scene) -> None:
    read, write = socket.socketpair()
    with read, write:
        process = scene.join(watch_fd=read.fileno())
        scene.loop.heard[read.fileno()][0]()
        assert process.polls == 1 and scene.loop.timers == []
        scene.wires.part(process)
        assert scene.loop.heard == {} and process.closed
    scene.join(watch_fd=-1)
    assert scene.loop.timers == [], "the template tells of what it has forked"
    process = scene.join(forked=False)
    scene.loop.pass_time()
    assert process.polls == 3
    process.exited = True
    scene.loop.pass_time()
    assert process.polls == 3 and scene.loop.timers == []
