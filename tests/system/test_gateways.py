"""Gateways over real links and shared memory: two machines' groups in one process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from dflow_core.errors import DflowError, PeerGoneError
from dflow_core.executor import make_gateway
from dflow_core.message import FlowMsg, MsgInfo, encode
from dflow_core.model import Crossing, QueuePlan
from dflow_core.spi import (
    Gateway,
    GatewayEvents,
    GatewayPlan,
    GroupConfig,
    Link,
    LinkConfig,
    LinkReceiver,
    MemoryGroup,
)
from dflow_core.testing.waiting import LIMIT, wait_until
from dflow_transport_grpc.transport import GrpcLinkTransport
from dflow_transport_shm import ShmTransport

QUEUES = (QueuePlan("out", 4), QueuePlan("back", 4))
CROSSINGS = (Crossing("out", "", "far"), Crossing("back", "far", ""))


class Watched(LinkReceiver):
    """Hands everything on to a gateway; what is to happen at the begin of the next message happens then."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.at_begin: Callable[[], None] = lambda: None

    def room_for(self, lane: int, head: bytes, size: int) -> memoryview:
        room = self._gateway.room_for(lane, head, size)
        self.at_begin()
        return room

    def arrived(self, lane: int, head: bytes) -> None:
        self._gateway.arrived(lane, head)

    def ended(self, error: DflowError | None) -> None:
        self._gateway.ended(error)


@dataclass
class Side:
    """One machine."""

    group: MemoryGroup
    link: Link
    gateway: Gateway
    receiver: Watched
    ended: list[str]
    failed: list[DflowError]

    @classmethod
    def make(cls, machine: str, peer: str, link: Link) -> Side:
        group = ShmTransport().create_group(GroupConfig(memory_limit=256 << 20))
        for queue in QUEUES:
            group.create_queue(queue.name, queue.depth)
        ended: list[str] = []
        failed: list[DflowError] = []
        events = GatewayEvents(ended.append, lambda: None, failed.append)
        gateway = make_gateway(group, link, GatewayPlan(machine, peer, CROSSINGS, QUEUES), events)
        gateway.begin()
        receiver = Watched(gateway)
        link.begin(receiver)
        return cls(group, link, gateway, receiver, ended, failed)

    def put(self, queue: str, trans_id: int, size: int) -> None:
        value = np.full(size, trans_id % 251, np.uint8)
        block = encode(value, MsgInfo(trans_id), lambda size: self.group.alloc(size, LIMIT)).block
        assert block is not None
        self.group.queue(queue).put(block, LIMIT)

    def take(self, queue: str) -> tuple[int, bool]:
        """Transaction of the next message, and whether all its bytes are right."""
        block = self.group.queue(queue).get(LIMIT)
        assert block is not None
        msg = FlowMsg.from_block(block)
        value = msg.get_tensor()
        assert value is not None
        return msg.info.trans_id, bool((value == msg.info.trans_id % 251).all())


@pytest.fixture
def sides() -> Iterator[tuple[Side, Side]]:
    transport, accepted, there = GrpcLinkTransport(), list[Link](), threading.Event()

    def accept(link: Link) -> None:
        accepted.append(link)
        there.set()

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(
            transport.listen("127.0.0.1:0", LinkConfig("far", lease=2.0), accept)
        ))
        link = stack.enter_context(contextlib.closing(
            transport.connect(listener.address, LinkConfig("head", lease=2.0), LIMIT)
        ))
        assert there.wait(LIMIT)
        stack.enter_context(contextlib.closing(accepted[0]))
        both = Side.make("", "far", link), Side.make("far", "", accepted[0])
        for side in both:
            stack.enter_context(contextlib.closing(side.group))
            stack.enter_context(contextlib.closing(side.gateway))
        yield both


def test_messages_of_all_sizes_go_both_ways_whole_and_in_order_and_no_block_is_left(sides: tuple[Side, Side]) -> None:
    head, far = sides
    sizes = [0, 1, 5000, 300_000, 5 << 20]
    count = 40

    def echo() -> None:
        for _ in range(count):
            trans_id, _ = far.take("out")
            far.put("back", trans_id, sizes[trans_id % 5])
        far.group.queue("back").close()

    def feed() -> None:
        for trans_id in range(1, count + 1):
            head.put("out", trans_id, sizes[trans_id % 5])
        head.group.queue("out").close()

    threads = [threading.Thread(target=echo), threading.Thread(target=feed)]
    for thread in threads:
        thread.start()
    assert [head.take("back") for _ in range(count)] == [(trans_id, True) for trans_id in range(1, count + 1)]
    for thread in threads:
        thread.join(LIMIT)
    wait_until(lambda: head.ended and far.ended)
    assert (far.ended, head.ended) == (["out"], ["back"])
    wait_until(lambda: not head.group.stats().blocks_in_use and not far.group.stats().blocks_in_use)


def test_no_block_is_left_where_the_sender_went_away_in_the_middle_of_a_large_message(sides: tuple[Side, Side]) -> None:
    """BC-006: what was half received is given back when the other end is lost."""
    head, far = sides
    # The first piece has come, and of the others only those that are ahead of it.
    far.receiver.at_begin = lambda: head.link.fail(PeerGoneError("cut"))  # type: ignore[attr-defined]
    head.put("out", 1, 64 << 20)
    wait_until(lambda: head.failed and far.failed)
    wait_until(lambda: not far.group.stats().blocks_in_use and not head.group.stats().blocks_in_use)
    assert far.group.queue("out").level() == 0
    assert "lost" in str(far.failed[0])
