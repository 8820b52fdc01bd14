"""The gateway's thread: what wakes it, what ends it, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from dflow_core.errors import DeployError, DflowError, LinkLostError
from dflow_core.executor import make_gateway
from dflow_core.executor.cancel_board import BOARD, WORDS, CancelBoard, CancelReader
from dflow_core.executor.gateway import mover
from dflow_core.message import FlowMsg, seal
from dflow_core.model import Crossing, QueuePlan
from dflow_core.spi import (
    FIRST_DATA_LANE,
    GATEWAY_LANE,
    Gateway,
    GatewayEvents,
    GatewayPlan,
    LinkReceiver,
    MemoryGroup,
)
from dflow_core.testing.waiting import LIMIT, wait_until
from tests.unit.executor.machines import FAR, HEAD, Heard, ManualLink, group_of
from tests.unit.executor.support import message


class DirectLink(ManualLink):
    """A link that is as fast as a call: it hands frames over in a thread of its own."""

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self._more = threading.Condition()
        self._frames: list[tuple[int, bytes, memoryview | None]] = []
        self._to: LinkReceiver | None = None
        self._stop = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def join(self, to: LinkReceiver) -> None:
        self._to = to
        self._thread.start()

    def send(self, lane: int, head: bytes, payload: memoryview | None = None) -> None:
        super().send(lane, head, None)
        self.lanes.clear()
        with self._more:
            self._frames.append((lane, head, payload))
            self._more.notify()

    def close(self, timeout: float = 5.0) -> None:
        super().close()
        with self._more:
            self._stop = True
            self._more.notify()
        self._thread.join(timeout)
        self._frames.clear()

    def _run(self) -> None:
        while True:
            with self._more:
                self._more.wait_for(lambda: self._frames or self._stop)
                if self._stop:
                    return
                frames, self._frames = self._frames, []
            # What is urgent goes first.
            frames.sort(key=lambda frame: min(frame[0], FIRST_DATA_LANE))
            while frames:
                self._deliver(*frames.pop(0))

    def _deliver(self, lane: int, head: bytes, payload: memoryview | None) -> None:
        assert self._to is not None
        if payload is not None:
            self._to.room_for(lane, head, payload.nbytes)[:] = payload
        self._to.arrived(lane, head)


class Side:
    """One machine with a running gateway."""

    def __init__(self, machine: str, peer: str, queues: list[QueuePlan], crossings: list[Crossing]) -> None:
        self.group: MemoryGroup = group_of(queues, 8 << 20)
        self.link, self.heard = DirectLink(f"machine {peer!r}"), Heard()
        plan = GatewayPlan(machine, peer, tuple(crossings), tuple(queues))
        self.gateway: Gateway = make_gateway(self.group, self.link, plan, self.heard.events())
        self.gateway.begin()


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing here may need the limits of waits: they are too long for that."""
    monkeypatch.setattr(mover, "_IDLE", 10 * LIMIT)
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("dflow-gateway")] == []


@pytest.fixture
def sides() -> Iterator[tuple[Side, Side]]:
    queues = [QueuePlan("q", 4), QueuePlan("r", 4)]
    crossings = [Crossing("q", HEAD, FAR), Crossing("r", FAR, HEAD)]
    head, far = Side(HEAD, FAR, queues, crossings), Side(FAR, HEAD, queues, crossings)
    head.link.join(far.gateway)
    far.link.join(head.gateway)
    yield head, far
    for side in (head, far):
        side.gateway.close()
    for side in (head, far):
        side.link.close()


def put(group: MemoryGroup, queue: str, trans_id: int, value: object = None, limit: float = LIMIT) -> None:
    block = seal(message(trans_id, value), group.alloc).block
    assert block is not None
    group.queue(queue).put(block, limit)


def got(group: MemoryGroup, queue: str) -> int:
    block = group.queue(queue).get(LIMIT)
    assert block is not None
    return FlowMsg.from_block(block).info.trans_id


def test_messages_go_there_and_back_while_both_sides_wait(sides: tuple[Side, Side]) -> None:
    head, far = sides

    def echo() -> None:
        for _ in range(200):
            put(far.group, "r", got(far.group, "q"))

    def feed() -> None:
        for trans_id in range(1, 201):
            put(head.group, "q", trans_id, np.zeros(1000, np.uint8))

    threads = [threading.Thread(target=target) for target in (echo, feed)]
    for thread in threads:
        thread.start()
    assert [got(head.group, "r") for _ in range(200)] == list(range(1, 201))
    for thread in threads:
        thread.join(LIMIT)
    wait_until(lambda: head.group.stats().blocks_in_use == far.group.stats().blocks_in_use == 0)


def test_room_in_a_full_queue_wakes_it(sides: tuple[Side, Side]) -> None:
    head, far = sides
    feeder = threading.Thread(target=lambda: [put(head.group, "q", trans_id) for trans_id in range(1, 31)])
    feeder.start()
    wait_until(lambda: far.group.queue("q").level() == head.group.queue("q").level() == 4)
    assert [got(far.group, "q") for _ in range(30)] == list(range(1, 31))
    feeder.join(LIMIT)


def test_an_end_is_told(sides: tuple[Side, Side]) -> None:
    head, far = sides
    put(far.group, "r", 1)
    far.group.queue("r").close()
    wait_until(lambda: head.heard.ended)
    assert (got(head.group, "r"), head.heard.ended, far.heard.ended) == (1, ["r"], [])


def test_memory_that_is_free_again_is_used(sides: tuple[Side, Side]) -> None:
    head, far = sides
    hog = far.group.alloc(8 << 20)
    put(head.group, "q", 1, np.zeros(1 << 20, np.uint8))
    wait_until(lambda: not head.group.stats().blocks_in_use)
    assert far.group.queue("q").level() == 0
    hog.release()
    assert got(far.group, "q") == 1


def test_a_closed_gateway_holds_nothing_and_swallows_what_still_comes(sides: tuple[Side, Side]) -> None:
    head, far = sides
    for trans_id in range(1, 9):
        put(head.group, "q", trans_id)
    wait_until(lambda: far.group.queue("q").level() == 4)
    far.gateway.close()
    assert not [h for h in far.group.stats().holders if h.pid]
    far.gateway.room_for(FIRST_DATA_LANE, b"", 100)[:] = bytes(100)
    far.gateway.arrived(FIRST_DATA_LANE, b"")
    far.gateway.ended(None)
    far.gateway.close()
    assert far.gateway.discard()
    assert not [h for h in far.group.stats().holders if h.pid]
    assert (far.heard.failed, head.heard.failed) == ([], [])


def test_a_gateway_that_never_began_can_be_closed() -> None:
    queues, link = [QueuePlan("q", 1)], ManualLink("x")
    plan = GatewayPlan(FAR, HEAD, (Crossing("q", HEAD, FAR),), tuple(queues))
    gateway = make_gateway(group_of(queues, 1 << 20), link, plan, Heard().events())
    gateway.close()
    assert link.sent == []


def test_a_lost_link_is_told_once(sides: tuple[Side, Side]) -> None:
    head, far = sides
    lost = LinkLostError("machine 'far' is lost")
    put(head.group, "q", 1)
    assert got(far.group, "q") == 1
    head.link.broken = lost
    put(head.group, "q", 1)
    wait_until(lambda: head.heard.failed)
    assert head.group.stats().blocks_in_use == 0  # not even by the traceback of the error
    head.gateway.ended(lost)
    put(head.group, "q", 2)
    assert not head.gateway.discard()
    assert head.gateway.discard()
    assert head.heard.failed == [lost]


@pytest.mark.parametrize("how", ["closed here", "closed there"])
def test_a_link_that_was_closed_in_order_is_no_failure(sides: tuple[Side, Side], how: str) -> None:
    head, far = sides
    put(head.group, "q", 1)
    assert got(far.group, "q") == 1
    if how == "closed there":
        head.gateway.ended(None)
        wait_until(head.gateway.discard)
    else:
        head.link.is_closed = True
        put(head.group, "q", 2)
        wait_until(lambda: not head.group.stats().blocks_in_use)
    head.gateway.close()
    assert head.heard.failed == []


def test_what_was_cancelled_is_told_at_once(sides: tuple[Side, Side]) -> None:
    head, far = sides
    put(head.group, "q", 1)
    assert got(far.group, "q") == 1
    CancelBoard(head.group.board(BOARD, WORDS)).add(5)
    head.gateway.tell_cancelled()
    wait_until(lambda: far.heard.cancelled)
    assert 5 in CancelReader(far.group.board(BOARD, WORDS))
    head.gateway.close()
    head.gateway.tell_cancelled()


@pytest.mark.parametrize(("lane", "head"), [(GATEWAY_LANE, b"?"), (FIRST_DATA_LANE, b"?"), (99, b"E")])
def test_a_frame_that_means_nothing_fails_the_gateway(sides: tuple[Side, Side], lane: int, head: bytes) -> None:
    _, far = sides
    far.gateway.arrived(lane, head)
    wait_until(lambda: far.heard.failed)
    (error,) = far.heard.failed
    assert "same version" in str(error)
    far.gateway.room_for(FIRST_DATA_LANE, b"", 100)
    far.gateway.arrived(FIRST_DATA_LANE, b"")
    wait_until(lambda: not far.group.stats().blocks_in_use)
    assert "machine ''" in str(error)


def test_a_fault_of_its_own_is_told() -> None:
    def broken(queue: str) -> None:
        raise ZeroDivisionError("oops")

    failed: list[DflowError] = []
    queues = [QueuePlan("q", 1)]
    plan = GatewayPlan(FAR, HEAD, (Crossing("q", HEAD, FAR),), tuple(queues))
    events = GatewayEvents(broken, lambda: None, failed.append)
    with contextlib.closing(make_gateway(group_of(queues, 1 << 20), ManualLink("x"), plan, events)) as gateway:
        gateway.begin()
        gateway.arrived(FIRST_DATA_LANE, b"E")
        wait_until(lambda: failed)
    assert isinstance(failed[0], DeployError)
    assert "application's machine: ZeroDivisionError: oops" in str(failed[0])


def test_a_gateway_may_be_closed_by_who_hears_of_its_failure() -> None:
    queues = [QueuePlan("q", 1)]
    plan = GatewayPlan(FAR, HEAD, (Crossing("q", HEAD, FAR),), tuple(queues))
    closed = threading.Event()

    def close(error: DflowError) -> None:
        gateway.close()
        closed.set()

    group = group_of(queues, 1 << 20)
    gateway = make_gateway(group, ManualLink("x"), plan, GatewayEvents(lambda queue: None, lambda: None, close))
    gateway.begin()
    gateway.room_for(FIRST_DATA_LANE, b"", 1000)
    gateway.arrived(FIRST_DATA_LANE, b"")
    gateway.room_for(FIRST_DATA_LANE, b"", 1000)
    gateway.arrived(FIRST_DATA_LANE, b"")
    gateway.ended(LinkLostError("gone"))
    assert closed.wait(LIMIT)
    wait_until(lambda: not [holder for holder in group.stats().holders if holder.pid])
    gateway.close()


def test_what_goes_wrong_while_messages_are_thrown_away_is_told_by_its_own_thread() -> None:
    told: list[str] = []
    queues, link = [QueuePlan("q", 1)], ManualLink("x")
    plan = GatewayPlan(FAR, HEAD, (Crossing("q", HEAD, FAR),), tuple(queues))
    events = GatewayEvents(told.append, lambda: None, lambda error: told.append(threading.current_thread().name))
    with contextlib.closing(make_gateway(group_of(queues, 1 << 20), link, plan, events)) as gateway:
        link.broken = LinkLostError("gone")
        gateway.discard()
        assert told == []
        gateway.begin()
        wait_until(lambda: told)
    assert told == ["dflow-gateway-head"]


def test_throwing_away_wakes_it_to_tell_what_went_wrong(sides: tuple[Side, Side]) -> None:
    head, far = sides
    put(head.group, "q", 1)
    assert got(far.group, "q") == 1
    CancelBoard(head.group.board(BOARD, WORDS)).add(5)  # what is to be sent; nobody rings
    head.link.broken = LinkLostError("gone")
    head.gateway.discard()
    wait_until(lambda: head.heard.failed)
