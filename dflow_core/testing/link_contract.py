"""The rules of `dflow_core.spi.link`, as tests that any LinkTransport runs through.

    class TestMine(LinkContract):
        @pytest.fixture
        def transport(self):
            return MyLinkTransport()
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from dflow_core.errors import ClosedError, DflowError, PeerGoneError, UsageError
from dflow_core.spi import CONTROL_LANE, FIRST_DATA_LANE, Link, LinkConfig, LinkReceiver, LinkTransport, Listener
from dflow_core.testing.waiting import wait_until

DATA = FIRST_DATA_LANE
LEASE = 20.0
MIB = 1 << 20


class Collector(LinkReceiver):
    """Keeps what a link brings.

    Attributes:
        frames: Lane, head and payload of each frame, in the order in which they were complete.
        ends: What `ended` was told.
    """

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes, bytes]] = []
        self.ends: list[DflowError | None] = []
        self._open: dict[int, bytearray] = {}

    def room_for(self, lane: int, head: bytes, size: int) -> memoryview:
        self._open[lane] = bytearray(size)
        return memoryview(self._open[lane])

    def arrived(self, lane: int, head: bytes) -> None:
        self.frames.append((lane, head, bytes(self._open.pop(lane, b""))))

    def ended(self, error: DflowError | None) -> None:
        self.ends.append(error)

    def wait_for(self, count: int) -> list[tuple[int, bytes, bytes]]:
        """The frames, when there are so many."""
        wait_until(lambda: len(self.frames) >= count)
        return self.frames


@dataclass
class Pair:
    """Both ends of a link, and what they bring."""

    near: Link
    far: Link
    at_near: Collector = field(default_factory=Collector)
    at_far: Collector = field(default_factory=Collector)

    def begin(self) -> None:
        self.near.begin(self.at_near)
        self.far.begin(self.at_far)


@dataclass
class Place:
    """Where links come from: a listener and those it has taken."""

    transport: LinkTransport
    listener: Listener
    accepted: list[Link]

    def connect(self, name: str = "near", key: bytes = b"") -> Pair:
        """A new link."""
        before = len(self.accepted)
        near = self.transport.connect(self.listener.address, LinkConfig(name, LEASE, key), 10.0)
        wait_until(lambda: len(self.accepted) > before)
        return Pair(near, self.accepted[-1])


class LinkContract:
    """What every LinkTransport does; a subclass gives it as the fixture `transport`."""

    @pytest.fixture
    def transport(self) -> LinkTransport:
        """The transport under test."""
        raise NotImplementedError

    @pytest.fixture
    def address(self) -> str:
        """Where to listen."""
        return "127.0.0.1:0"

    @pytest.fixture
    def place(self, transport: LinkTransport, address: str) -> Iterator[Place]:
        threads = set(threading.enumerate())
        accepted: list[Link] = []
        listener = transport.listen(address, LinkConfig("far", LEASE), accepted.append)
        made = Place(transport, listener, accepted)
        yield made
        for link in accepted:
            link.close()
        listener.close()
        wait_until(lambda: not [t for t in threading.enumerate() if t not in threads and t.is_alive()])

    @pytest.fixture
    def pair(self, place: Place) -> Iterator[Pair]:
        made = place.connect()
        made.begin()
        yield made
        made.near.close()

    def test_both_ends_know_each_other_by_name(self, place: Place) -> None:
        pair = place.connect("a good name")
        assert "far" in pair.near.peer and place.listener.address in pair.near.peer
        assert "a good name" in pair.far.peer
        pair.near.close()

    @pytest.mark.parametrize("size", [0, 1, 4096, MIB - 1, MIB, MIB + 1, 5 * MIB])
    def test_a_frame_comes_whole_in_both_directions(self, pair: Pair, size: int) -> None:
        payload = bytes(range(256)) * (size // 256 + 1)
        pair.near.send(DATA, b"to far", memoryview(payload)[:size])
        pair.far.send(DATA + 3, b"to near", memoryview(payload)[:size])
        assert pair.at_far.wait_for(1) == [(DATA, b"to far", payload[:size])]
        assert pair.at_near.wait_for(1) == [(DATA + 3, b"to near", payload[:size])]

    def test_frames_of_a_lane_keep_their_order(self, pair: Pair) -> None:
        for number in range(600):
            lane, size = DATA + number % 3, (number * 7919) % 5000
            pair.near.send(lane, b"%d" % number, memoryview(bytes(size)) if size else None)
        frames = pair.at_far.wait_for(600)
        for lane in range(DATA, DATA + 3):
            found = [int(head) for at, head, _ in frames if at == lane]
            assert found == sorted(found) and len(found) == 200

    def test_a_small_frame_does_not_wait_for_a_large_one(self, pair: Pair) -> None:
        pair.near.send(DATA, b"large", memoryview(bytes(64 * MIB)))
        pair.near.send(DATA + 1, b"small", memoryview(b"x"))
        pair.near.send(CONTROL_LANE, b"urgent", memoryview(b"y"))
        assert [head for _, head, _ in pair.at_far.wait_for(3)][-1] == b"large"

    def test_what_comes_before_the_beginning_is_kept(self, place: Place) -> None:
        pair = place.connect()
        pair.far.begin(pair.at_far)
        pair.far.send(DATA, b"early", memoryview(b"1"))
        pair.near.begin(pair.at_near)
        assert pair.at_near.wait_for(1) == [(DATA, b"early", b"1")]
        pair.near.close()

    def test_closing_sends_what_waits_and_is_told_once(self, pair: Pair) -> None:
        payload = bytes(3 * MIB)
        for _ in range(4):
            pair.near.send(DATA, b"", memoryview(payload))
        pair.near.close()
        pair.near.close()
        wait_until(lambda: pair.at_far.ends)
        assert pair.at_far.ends == [None] and len(pair.at_far.frames) == 4
        assert pair.at_near.ends == []
        with pytest.raises(ClosedError):
            pair.near.send(DATA, b"late")
        with pytest.raises(DflowError):
            pair.far.send(DATA, b"late")

    def test_the_listening_end_may_close(self, pair: Pair) -> None:
        pair.far.send(DATA, b"last", memoryview(b"z"))
        pair.far.close()
        wait_until(lambda: pair.at_near.ends)
        assert (pair.at_near.ends, len(pair.at_near.frames)) == ([None], 1)

    def test_a_payload_is_let_go_when_the_other_end_has_it(self, pair: Pair) -> None:
        payload = bytearray(2 * MIB)
        pair.near.send(DATA, b"", memoryview(payload))
        pair.at_far.wait_for(1)

        def can_resize() -> bool:
            try:
                payload.append(0)  # not while a view of it exists
            except BufferError:
                return False
            return True

        wait_until(can_resize)

    def test_a_head_has_a_limit(self, pair: Pair) -> None:
        pair.near.send(DATA, bytes(64 << 10), None)
        assert len(pair.at_far.wait_for(1)[0][1]) == 64 << 10
        with pytest.raises(UsageError):
            pair.near.send(DATA, bytes((64 << 10) + 1), None)

    def test_links_do_not_disturb_each_other(self, place: Place) -> None:
        pairs = [place.connect(f"n{number}") for number in range(3)]
        for number, pair in enumerate(pairs):
            pair.begin()
            pair.near.send(DATA, b"%d" % number)
        pairs[1].near.close()
        assert [pair.at_far.wait_for(1)[0][1] for pair in pairs] == [b"0", b"1", b"2"]
        for pair in (pairs[0], pairs[2]):
            pair.far.send(DATA, b"still there")
            assert pair.at_near.wait_for(1)[0][1] == b"still there"
            pair.near.close()

    @pytest.mark.parametrize(("here", "there"), [(b"one", b"two"), (b"", b"two"), (b"one", b"")])
    def test_another_key_is_refused(self, transport: LinkTransport, address: str, here: bytes, there: bytes) -> None:
        accepted: list[Link] = []
        listener = transport.listen(address, LinkConfig("far", LEASE, there), accepted.append)
        with pytest.raises(UsageError, match="key"):
            transport.connect(listener.address, LinkConfig("near", LEASE, here), 10.0)
        assert not accepted
        listener.close()

    def test_nobody_there_is_told_by_the_address(self, transport: LinkTransport, address: str) -> None:
        listener = transport.listen(address, LinkConfig("far", LEASE), _nobody)
        where = listener.address
        listener.close()
        with pytest.raises(PeerGoneError) as caught:
            transport.connect(where, LinkConfig("near", LEASE), 0.5)
        assert where in str(caught.value)

    def test_an_address_in_use_is_told(self, place: Place) -> None:
        with pytest.raises(UsageError) as caught:
            place.transport.listen(place.listener.address, LinkConfig("second", LEASE), _nobody)
        assert place.listener.address in str(caught.value)

    @pytest.mark.parametrize("wrong", ["", "here", "1.2.3.4", "host:", ":7", "host:port", "host:70000"])
    def test_what_is_no_address_is_refused(self, transport: LinkTransport, wrong: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: transport.listen(wrong, LinkConfig("far", LEASE), _nobody),
            lambda: transport.connect(wrong, LinkConfig("near", LEASE), 0.2),
        ]
        for call in calls:
            with pytest.raises(UsageError):
                call()


def _nobody(link: Link) -> None:
    raise AssertionError("nobody connects here")
