"""Parts of graphs on other machines, from both ends of a link: how they begin, are asked and end. No process starts."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from dflow_core.deploy.machines.daemon import Daemon
from dflow_core.deploy.machines.joint_deployment import _all_or_none
from dflow_core.deploy.machines.part_host import Means, PartHost
from dflow_core.deploy.machines.remote_part import RemotePart
from dflow_core.deploy.machines.talk import Deploy
from dflow_core.errors import ClosedError, DeployError, LinkLostError, StartupError, UsageError
from dflow_core.model import ExceptionNote, Machine, om_chunks
from dflow_core.spi import InstanceStatus, Link, LinkConfig
from dflow_core.testing.waiting import LIMIT, wait_until
from tests.unit.deploy.machines.test_talk import PART, Heard
from tests.unit.deploy.test_placement import chain
from tests.unit.deploy.test_planner import cpu, udf

PLAN = PART.others["server1"]
MODEL = b"".join(om_chunks(chain(udf("a"), cpu("m"), udf("c"))))
STATUS = InstanceStatus("m", 0, "p", 7, "running", 0, 1, 0.5)
NOTE = ExceptionNote(3, -4, 5, b"head", "n", 1, 2, True)


class End(Link):
    """One end of a link inside this process; what is sent arrives at once."""

    def __init__(self, peer):
        self.peer, self.other, self.receiver, self.closed = peer, None, None, False
        self.begun = threading.Event()

    def begin(self, receiver):
        self.receiver = receiver
        self.begun.set()

    def send(self, lane, head, payload=None):
        if self.closed:
            raise ClosedError("closed")
        assert self.other.begun.wait(LIMIT)
        if payload is not None:
            self.other.receiver.room_for(lane, head, len(payload))[:] = payload
        self.other.receiver.arrived(lane, head)

    def close(self, timeout=5.0):
        if not self.closed:
            self.closed = self.other.closed = True
            self.other.lose(None)

    def lose(self, error):
        if self.receiver is not None:
            self.receiver.ended(error)


def ends():
    here, there = End("the daemon"), End("the application")
    here.other, there.other = there, here
    return here, there


class Part:
    """A deployment that does what the test says."""

    def __init__(self, starts=True, error=None):
        self.group, self.users, self.calls = None, [], []
        self.closed, self.starts = threading.Event(), starts
        self.error = self.broken = None
        self.start_error = error

    def start(self):
        if self.start_error is not None:
            raise self.start_error
        if not self.starts:
            assert self.closed.wait(LIMIT)
            raise ClosedError("the graph was closed while it was being started")

    def failure(self):
        return self.error

    def watch_exceptions(self, call):
        self.raised = call

    def watch_failure(self, call):
        self.broken = call

    def tell_exception(self, note):
        self.calls.append(note)

    def tell_cancelled(self):
        raise NotImplementedError

    def fail(self, error):
        raise NotImplementedError

    def stacks(self):
        return {"p": "File x"}

    def suspend(self, timeout):
        self.calls.append(("suspend", timeout))
        return True

    def resume(self):
        self.calls.append("resume")

    def discard(self, timeout):
        return None

    def close(self, timeout=None):
        self.calls.append(("close", timeout))
        if not self.closed.is_set():
            for end in self.users:
                end()
        self.closed.set()


class Deployer:
    """Starts one part."""

    def __init__(self, part):
        self.part, self.plans, self.made, self.closed = part, [], threading.Event(), False

    def deploy(self, model, plan, options, made):
        self.plans.append((plan, dict(options), sorted(model.submodels)))
        made(self.part)
        self.made.set()
        self.part.start()
        return self.part

    def warm_up(self):
        pass

    def close(self):
        self.closed = True


class Moves(Heard):
    """A gateway that only notes its end."""

    def __init__(self):
        super().__init__()
        self.begun = self.closed = False

    def begin(self):
        self.begun = True

    def close(self):
        self.closed = True

    def discard(self):
        return True


class Both:
    """A part, and both ends of the link it is asked over."""

    def __init__(self, part=None):
        self.part, self.gateway = part or Part(), Moves()
        self.deployer = Deployer(self.part)
        self.means = Means(self.deployer, lambda *_: self.gateway, lambda deployment: [STATUS])
        here, self.there = ends()
        self.left, self.raised, self.broken = [], [], []
        self.host = PartHost(self.there, self.means, self.left.append)
        self.host.begin()
        self.remote = RemotePart(Machine("far", "10.0.0.2:1"), here, self.raised.append, self.broken.append)

    def deploy(self):
        self.remote.deploy(PLAN, {"a": "b"}, MODEL, LIMIT)


@pytest.fixture
def both():
    made = Both()
    made.deploy()
    return made


def test_a_part_is_deployed_from_what_travels_and_its_gateway_moves(both):
    (plan, options, models), = both.deployer.plans
    assert (plan.processes, plan.queues, plan.machine) == (PLAN.processes, PLAN.queues, "server1")
    assert (options, models) == ({"a": "b"}, ["a", "c", "m"])
    assert both.gateway.begun


def test_a_link_has_one_part(both):
    with pytest.raises(UsageError, match="on the daemon: a part of a graph was deployed over this link before"):
        both.deploy()


def test_questions_are_answered_by_the_part(both):
    assert both.remote.status() == (replace(STATUS, machine="far"),)
    assert both.remote.stacks() == {"p": "File x"}
    assert both.remote.suspend(2.0) is True
    both.remote.resume()
    assert both.part.calls == [("suspend", 2.0), "resume"]
    assert both.remote.discard(1.0) is None, "not all have answered"
    both.remote.tell_exception(NOTE)
    assert both.part.calls[-1] == NOTE


def test_questions_before_there_is_a_part_are_refused():
    made = Both()
    with pytest.raises(ClosedError, match="there is no part of a graph here"):
        made.remote.suspend(1.0)
    assert made.remote.status() == ()


def test_what_is_raised_and_what_breaks_there_is_told_here(both):
    both.part.raised(NOTE)
    assert both.raised == [NOTE]
    both.part.broken(StartupError("it keeps dying", node="m", instance=0))
    assert [type(error) for error in both.broken] == [StartupError]
    assert "on the daemon: it keeps dying" in str(both.broken[0])


def test_a_part_that_does_not_come_up_says_why():
    made = Both(Part(error=StartupError("no weights", node="m", instance=0, output="printed")))
    with pytest.raises(StartupError, match="on the daemon: no weights") as caught:
        made.deploy()
    assert (caught.value.node, caught.value.output) == ("m", "printed")
    assert not made.gateway.begun


def test_a_part_that_broke_before_it_was_watched_is_not_ready():
    part = Part()
    part.error = DeployError("a process died at once")
    with pytest.raises(DeployError, match="a process died at once"):
        Both(part).deploy()


@pytest.mark.parametrize("how", ["lost", "closed here", "closed there"])
@pytest.mark.parametrize("starts", [True, False], ids=["ready", "starting"])
def test_whatever_ends_a_link_ends_the_part_ready_or_not(how, starts):
    """BC-006: nothing runs on for nobody, not even what was still being started."""
    made = Both(Part(starts=starts))
    failed = []

    def deploy():
        try:
            made.deploy()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=deploy)
    thread.start()
    assert made.deployer.made.wait(LIMIT)
    if starts:
        thread.join(LIMIT)
    if how == "lost":
        made.there.lose(LinkLostError("gone"))
        made.there.other.lose(LinkLostError("gone"))
    elif how == "closed here":
        made.remote.close(0.0)
    else:
        made.host.close(0.0)
    assert made.part.closed.wait(LIMIT)
    thread.join(LIMIT)
    assert bool(failed) != starts
    if how != "closed there":
        wait_until(lambda: made.left == [made.host])
    assert made.gateway.closed == starts, "its gateway ends with it"
    assert bool(made.broken) == (how != "closed here"), "the application is told of what it has not done itself"


def test_a_link_that_was_lost_before_the_part_was_made_ends_it_too():
    made = Both()
    made.host.close(0.0)
    with pytest.raises(UsageError, match="was deployed over this link before"):
        made.host._serve(Deploy(PLAN, {}, MODEL))
    assert not made.deployer.plans


def test_state_and_stacks_of_a_machine_that_says_nothing(both):
    known = both.remote.status()
    both.there.other.lose(LinkLostError("gone"))
    assert both.remote.status() == known, "what was last known"
    assert both.remote.stacks() == {"far": "gone"}
    assert [str(error) for error in both.broken] == ["gone"]


class Listening:
    """A transport whose links come when the test says so."""

    def listen(self, address, config, accept):
        self.address, self.accept, self.open = "127.0.0.1:7", accept, True
        return self

    def close(self):
        self.open = False


def test_a_daemon_ends_all_parts_side_by_side_then_what_they_share():
    transport, parts = Listening(), [Part(), Part(), Part()]
    together = threading.Barrier(len(parts), timeout=LIMIT)
    for part in parts:
        part.users.append(together.wait)
    deployers = iter(parts)

    class Shared(Deployer):
        def deploy(self, model, plan, options, made):
            self.part = next(deployers)
            return super().deploy(model, plan, options, made)

    shared = Shared(None)
    daemon = Daemon(
        transport, "127.0.0.1:0", LinkConfig("d"), Means(shared, lambda *_: Moves(), lambda deployment: [])
    )
    assert (daemon.address, daemon.graphs) == ("127.0.0.1:7", 0)
    told = []
    for _ in parts:
        here, there = ends()
        transport.accept(there)
        RemotePart(Machine("far", "a"), here, lambda note: None, told.append).deploy(PLAN, {}, MODEL, LIMIT)
    assert daemon.graphs == 3
    daemon.close(1.0)
    daemon.close(1.0)
    assert all(part.closed.is_set() for part in parts) and shared.closed and not transport.open
    assert "the daemon was told to end" in str(told[0])
    here, there = ends()
    transport.accept(there)
    assert there.closed, "it takes no more"


def test_a_daemon_forgets_a_part_whose_application_left():
    transport = Listening()
    daemon = Daemon(
        transport, "127.0.0.1:0", LinkConfig("d"), Means(Deployer(Part()), lambda *_: Moves(), lambda deployment: [])
    )
    here, there = ends()
    transport.accept(there)
    RemotePart(Machine("far", "a"), here, lambda note: None, lambda error: None).close(0.0)
    wait_until(lambda: daemon.graphs == 0)
    daemon.close()


def test_the_first_of_several_starts_that_fails_ends_the_others_and_is_what_is_raised():
    ended = threading.Event()

    def slow():
        assert ended.wait(LIMIT)
        raise ClosedError("it was ended while it started")

    def fails():
        raise StartupError("no weights")

    with ExitStack() as undo:
        undo.callback(ended.set)
        with pytest.raises(StartupError, match="no weights"):
            _all_or_none([slow, fails], undo)
    with ExitStack() as undo:
        assert _all_or_none([lambda: 1, lambda: 2], undo) == [1, 2]
