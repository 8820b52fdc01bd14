"""Connections that break, ends that die, ports that are taken."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from dflow_core.errors import LinkLostError, UsageError
from dflow_core.spi import FIRST_DATA_LANE, LinkConfig
from dflow_core.testing.link_contract import Collector, Pair
from dflow_core.testing.waiting import wait_until
from dflow_transport_grpc.addresses import holder_of
from dflow_transport_grpc.transport import GrpcLinkTransport
from tests.system.machines_support import network

DATA = FIRST_DATA_LANE
MIB = 1 << 20

FAR = """
import sys, threading
from dflow_core.spi import LinkConfig
from dflow_core.testing.link_contract import Collector
from dflow_transport_grpc.transport import GrpcLinkTransport

links = []

def accept(link):
    links.append(link)
    link.begin(Collector())

listener = GrpcLinkTransport().listen(sys.argv[1], LinkConfig("far", float(sys.argv[2])), accept)
print(listener.address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def far():
    """Starts listening ends in processes of their own."""
    made = []

    def start(address="127.0.0.1:0", lease=20.0):
        process = subprocess.Popen(
            [sys.executable, "-c", FAR, address, str(lease)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        made.append(process)
        return process, process.stdout.readline().strip()

    yield start
    for process in made:
        process.kill()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("how", ["hold", "cut"])
def test_a_break_within_the_lease_loses_and_doubles_nothing(place, transport, how):
    """BC-094."""
    with network(place.listener.address) as way:
        near = transport.connect(way.address, LinkConfig("near", 20.0), 10.0)
        pair = Pair(near, place.accepted[0])
        pair.begin()
        for number in range(400):
            near.send(DATA + number % 2, b"%d" % number, memoryview(bytes(number * 100)))
            pair.far.send(DATA, b"%d" % number, None)
            if number % 100 == 50:
                getattr(way, how)()
                way.mend()
        frames = pair.at_far.wait_for(400)
        assert sorted(int(head) for _, head, _ in frames) == list(range(400))
        assert all(len(payload) == int(head) * 100 for _, head, payload in frames)
        assert [int(head) for _, head, _ in pair.at_near.wait_for(400)] == list(range(400))
        near.close()
    assert pair.at_near.ends == [] and pair.at_far.ends == [None]


def test_beyond_the_lease_both_ends_are_told_once(place, transport):
    """BC-094."""
    threads = threading.active_count()
    with network(place.listener.address) as way:
        near = transport.connect(way.address, LinkConfig("near", 0.4), 10.0)
        pair = Pair(near, place.accepted[0])
        pair.begin()
        way.hold()
        wait_until(lambda: pair.at_near.ends and pair.at_far.ends)
        for ends, words in ((pair.at_near.ends, "far at"), (pair.at_far.ends, "near at")):
            assert len(ends) == 1 and isinstance(ends[0], LinkLostError)
            assert words in str(ends[0]) and "0.4 s" in str(ends[0])
        with pytest.raises(LinkLostError):
            near.send(DATA, b"late")
        near.close()
        pair.far.close()
    wait_until(lambda: threading.active_count() <= threads + 2)  # gRPC keeps those it serves with
    assert (len(pair.at_near.ends), len(pair.at_far.ends)) == (1, 1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_end_that_dies_or_stops_in_the_middle_of_a_frame_is_lost_after_the_lease(far, transport, number):
    process, address = far()
    near, at_near = transport.connect(address, LinkConfig("near", 0.4), 10.0), Collector()
    near.begin(at_near)
    payload = bytearray(200 * MIB)
    near.send(DATA, b"large", memoryview(payload))
    process.send_signal(number)
    wait_until(lambda: at_near.ends)
    assert isinstance(at_near.ends[0], LinkLostError) and address in str(at_near.ends[0])
    near.close()

    def is_let_go():
        try:
            payload.append(0)
        except BufferError:
            return False
        return True

    wait_until(is_let_go)


def test_a_listener_that_is_a_new_one_knows_no_old_links(far, transport):
    """BC-097: started again at once on the same port, after SIGKILL."""
    process, address = far()
    near, at_near = transport.connect(address, LinkConfig("near", 20.0), 10.0), Collector()
    near.begin(at_near)
    process.kill()
    process.wait(10)
    _, again = far(address)
    assert again == address
    wait_until(lambda: at_near.ends)
    assert "knows nothing of this link" in str(at_near.ends[0])
    near.close()
    second = transport.connect(address, LinkConfig("near", 20.0), 10.0)
    second.close()


def test_a_port_that_is_taken_names_who_has_it(far, transport):
    """BC-097."""
    process, address = far()
    with pytest.raises(UsageError, match=f"at {address}; process {process.pid}") as caught:
        transport.listen(address, LinkConfig("second"), lambda link: None)
    assert "choose another port" in caught.value.hint


def test_nobody_has_a_port_that_nobody_listens_at():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert holder_of(bound.getsockname()[1]) == ""


def test_other_versions_are_refused(place):
    old = GrpcLinkTransport("0.0.1")
    with pytest.raises(UsageError, match=r"refused|has dflow"):
        old.connect(place.listener.address, LinkConfig("near"), 10.0)
    assert not place.accepted


def test_a_fork_cannot_use_a_link_and_does_it_no_harm(place):
    """BC-090."""
    pair = place.connect()
    pair.begin()
    pid = os.fork()
    if pid == 0:
        try:
            pair.near.send(DATA, b"x")
        except UsageError as error:
            pair.near.close()
            os._exit(7 if "this is a fork" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    pair.near.send(DATA, b"still works")
    assert pair.at_far.wait_for(1)[0][1] == b"still works"
    pair.near.close()


def test_forks_on_their_way_to_other_programs_are_not_disturbed(place):
    """BC-090: threads of gRPC in a fork, whose descriptors are closed under them, abort it or let it hang."""
    pair = place.connect()
    pair.begin()
    for _ in range(60):
        done = subprocess.run(["true"], preexec_fn=lambda: None, capture_output=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, b"")
    pair.near.close()


def test_listing_plugins_imports_no_grpc():
    code = "import sys, dflow_transport_grpc.plugin as p; p.dflow_register_links(); sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


@pytest.mark.slow
def test_a_frame_beyond_two_gib_comes_whole(place):
    """BC-075."""
    pair = place.connect()
    pair.begin()
    payload = bytearray(2100 * MIB)
    payload[-3:] = b"end"
    pair.near.send(DATA, b"", memoryview(payload))
    wait_until(lambda: pair.at_far.frames, 120)
    assert len(pair.at_far.frames[0][2]) == len(payload) and pair.at_far.frames[0][2].endswith(b"end")
    pair.near.close()


def test_closing_does_not_wait_for_an_end_that_is_gone(far, transport):
    process, address = far()
    near = transport.connect(address, LinkConfig("near", 20.0), 10.0)
    near.begin(Collector())
    process.kill()
    near.send(DATA, b"nobody takes it")
    near.close(0.2)
