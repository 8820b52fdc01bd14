"""What machines tell each other: bytes and back, errors of elsewhere, requests and answers, lanes."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core import errors
from dflow_core.deploy.machines.conversation import Conversation
from dflow_core.deploy.machines.faults import error_from, failure_of
from dflow_core.deploy.machines.serde import deserialize_message, serialize_message
from dflow_core.deploy.machines.switch import Switch
from dflow_core.deploy.machines.talk import Answer, Ask, Broken, Deploy, MachineMessage, Question, Raised
from dflow_core.deploy.planning.parts import split_plan
from dflow_core.errors import DflowError, LinkLostError, PeerGoneError, StartupError, UsageError, WaitTimeoutError
from dflow_core.model import ExceptionNote
from dflow_core.model.control_serde import Failure
from dflow_core.spi import CONTROL_LANE, Gateway, InstanceStatus, Link, QueueStats
from dflow_core.testing.waiting import wait_until
from tests.unit.deploy.test_parts import place, planned
from tests.unit.deploy.test_placement import chain
from tests.unit.deploy.test_planner import cpu, udf

PLACES = place("a", ""), place("m", "server1"), place("c", "server2")
PART = split_plan(planned(chain(udf("a"), cpu("m"), udf("c")), *PLACES))
STATUS = InstanceStatus("n", 2, "p", 77, "running", 1, 10, 0.5, (9, 0.25), (3.0, "too often"), 4, 0.1, 0.2)
MESSAGES = {
    "deploy": Deploy(replace(PART.others["server1"], notes=(), budget=(), placements=()), {"a": "b"}, b"model \0"),
    "ask": Ask(Question.DISCARD, 2.5),
    "answer": Answer(),
    "verdict": Answer(verdict=False),
    "failure": Answer(Failure("ValueError", "text \udc80", "trace", "n", 3, "hint", 5, ("f[1]",))),
    "status": Answer(statuses=(STATUS, replace(STATUS, current=None, given_up=None))),
    "queues": Answer(queues=(QueueStats("q", 8, 2, 10, 7, 1, 0, 0.5, 1.5, 2.5), QueueStats("r", 1, 0, 0, 0, 0))),
    "stacks": Answer(stacks={"p": "File x"}),
    "raised": Raised(ExceptionNote(3, -4, 5, b"head", "n", 1, 2, True)),
    "broken": Broken(Failure("LinkLostError", "gone")),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_come_back(name):
    message = MachineMessage(7, MESSAGES[name])
    found = deserialize_message(serialize_message(message))
    if name == "failure":  # lone surrogates of exception texts are written out
        found = MachineMessage(7, replace(found.content, failure=replace(found.content.failure, message="text \udc80")))
    assert found == message


def test_a_part_comes_back_with_its_processes_queues_and_crossings():
    for part in PART.others.values():
        found = deserialize_message(serialize_message(MachineMessage(1, Deploy(part, {}, b"")))).content.plan
        assert (found.processes, found.queues, found.crossings) == (part.processes, part.queues, part.crossings)
        assert (found.machine, found.cpus, found.graph, found.feeds) == (part.machine, part.cpus, part.graph, ())
        assert [one.places for one in found.placements] == [one.places for one in part.placements]


@given(st.sampled_from(sorted(MESSAGES)), st.integers(0, 10_000), st.integers(0, 255))
def test_altered_messages_are_refused_or_messages(name, at, value):
    data = bytearray(serialize_message(MachineMessage(1, MESSAGES[name])))
    data[at % len(data)] = value
    with contextlib.suppress(PeerGoneError):
        assert isinstance(deserialize_message(bytes(data)), MachineMessage)


@pytest.mark.parametrize("data", [b"", b"\1", b"\xff\xff\xff\xff", b"\0\0\0\0"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(PeerGoneError, match="cannot be read"):
        deserialize_message(data)


ERRORS = {
    "startup": StartupError("no", node="n", instance=1, output="printed", hint="h"),
    "usage": UsageError("bad", hint="h"),
    "lost": errors.InstanceLostError("died", node="n", instance=0),
    "link": LinkLostError("gone"),
    "node": errors.NodeError("x", error_type="ValueError", remote_traceback="File y", node="n", instance=2, trans_id=4),
    "faults": errors.PlacementError([errors.Fault("kind", "w", "", "text")]),
    "foreign": KeyError("k"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_arrive_as_what_they_were_and_name_the_machine(name):
    error = ERRORS[name]
    found = error_from(failure_of(error), "vm at 1.2.3.4:5")
    assert "on vm at 1.2.3.4:5: " in str(found)
    if isinstance(error, errors.PlacementError | KeyError):  # they are made from more than travels
        assert isinstance(found, errors.DeployError)
        return
    assert type(found) is type(error)
    assert (found.node, found.instance, found.hint) == (error.node, error.instance, error.hint)
    if name == "startup":
        assert found.output == "printed"
    if name == "node":
        assert "File y" in str(found) and found.trans_id == 4


class Wire(Link):
    """Frames of the control lane go to another end when the test says so."""

    def __init__(self):
        self.peer, self.frames, self.broken = "the other", deque(), None

    def begin(self, receiver):
        raise AssertionError("a conversation does not begin a link")

    def send(self, lane, head, payload=None):
        if self.broken is not None:
            raise self.broken
        assert (lane, head) == (CONTROL_LANE, b"")
        self.frames.append(payload)

    def close(self, timeout=5.0):
        pass

    def bring(self, to):
        wait_until(lambda: self.frames)
        to.take(self.frames.popleft())


def conversation(serve=lambda request: Answer(), hear=lambda note: None):
    wire = Wire()
    return wire, Conversation(wire, serve, hear)


def asked(end, request, timeout=20.0):
    """Ask in a thread; gives the thread and what comes of it."""
    found = []

    def run():
        try:
            found.append(end.ask(request, timeout))
        except DflowError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_answers_find_their_requests_whatever_their_order():
    there, host = conversation(lambda request: Answer(stacks={"which": str(request.timeout)}))
    here, end = conversation()
    first = asked(end, Ask(Question.STACKS, 1.0))
    wait_until(lambda: len(here.frames) == 1)
    second = asked(end, Ask(Question.STACKS, 2.0))
    wait_until(lambda: len(here.frames) == 2)
    here.frames.reverse()
    here.bring(host)
    here.bring(host)
    there.bring(end)
    there.bring(end)
    for (thread, found), wanted in ((first, "1.0"), (second, "2.0")):
        thread.join(20)
        assert found[0].stacks == {"which": wanted}


def test_what_serving_raises_is_raised_where_it_was_asked():
    def serve(request):
        raise StartupError("it does not come up", node="n", instance=0)

    there, host = conversation(serve)
    here, end = conversation()
    thread, found = asked(end, Ask(Question.STATUS))
    here.bring(host)
    there.bring(end)
    thread.join(20)
    assert isinstance(found[0], StartupError) and "on the other: it does not come up" in str(found[0])


def test_no_answer_in_time_is_told_and_a_late_one_is_dropped():
    there, host = conversation()
    here, end = conversation()
    with pytest.raises(WaitTimeoutError, match="the other did not answer within 0.01 s"):
        end.ask(Ask(Question.STATUS), 0.01)
    here.bring(host)
    there.bring(end)


def test_whoever_waits_is_told_of_the_end():
    here, end = conversation()
    thread, found = asked(end, Ask(Question.STATUS))
    wait_until(lambda: here.frames)
    end.end(LinkLostError("gone"))
    thread.join(20)
    assert str(found[0]) == "gone"
    with pytest.raises(LinkLostError):
        end.ask(Ask(Question.STATUS), 1.0)


def test_notes_are_heard_and_lost_ones_do_not_matter():
    heard = []
    _, host = conversation(hear=heard.append)
    here, end = conversation()
    end.tell(MESSAGES["raised"])
    here.bring(host)
    assert heard == [MESSAGES["raised"]]
    here.broken = LinkLostError("gone")
    end.tell(MESSAGES["broken"])


class Heard(Gateway):
    """Keeps what it is given."""

    def __init__(self):
        self.frames, self.ends, self._open = [], [], {}

    def begin(self):
        raise NotImplementedError

    def tell_cancelled(self):
        raise NotImplementedError

    def discard(self):
        raise NotImplementedError

    def close(self):
        raise NotImplementedError

    def room_for(self, lane, head, size):
        self._open[lane] = bytearray(size)
        return memoryview(self._open[lane])

    def arrived(self, lane, head):
        self.frames.append((lane, head, bytes(self._open.pop(lane, b""))))

    def ended(self, error):
        self.ends.append(error)


def bring(switch, lane, payload=b"", head=b"h"):
    if payload:
        switch.room_for(lane, head, len(payload))[:] = payload
    switch.arrived(lane, head)


def test_the_control_lane_goes_to_the_conversation_and_the_others_to_the_gateway():
    said, gateway = [], Heard()
    switch = Switch(lambda data: said.append(bytes(data)), lambda error: None)
    switch.join(gateway)
    bring(switch, CONTROL_LANE, b"request")
    bring(switch, 2, b"message")
    bring(switch, 1)
    assert said == [b"request"]
    assert gateway.frames == [(2, b"h", b"message"), (1, b"h", b"")]


def test_what_comes_before_the_gateway_is_kept_in_order():
    gateway = Heard()
    switch = Switch(lambda data: None, lambda error: None)
    bring(switch, 2, b"one")
    bring(switch, 1)
    room = switch.room_for(3, b"h", 4)  # it is under way when the gateway comes
    switch.join(gateway)
    room[:] = b"four"
    switch.arrived(3, b"h")
    bring(switch, 2, b"two")
    assert gateway.frames == [(2, b"h", b"one"), (1, b"h", b""), (3, b"h", b"four"), (2, b"h", b"two")]


@pytest.mark.parametrize("early", [True, False])
def test_gateway_and_owner_are_told_of_the_end(early):
    told, gateway, error = [], Heard(), LinkLostError("gone")
    switch = Switch(lambda data: None, told.append)
    if early:
        switch.ended(error)
    switch.join(gateway)
    if not early:
        switch.ended(error)
    assert (told, gateway.ends) == ([error], [error])
