"""One end of a link without a connection: how often, and when, its receiver is told of the end."""

from __future__ import annotations

import threading

import pytest

from dflow_core.errors import ClosedError, DflowError, LinkLostError
from dflow_core.spi import FIRST_DATA_LANE
from dflow_core.testing.link_contract import Collector
from dflow_transport_grpc.link import GrpcLink, Stream
from dflow_transport_grpc.words import Kind, Piece, Word, pack

LOST, CLOSED = LinkLostError("lost"), ClosedError("closed")
FRAME = pack(Word(Kind.PIECES, 0, (Piece(1, FIRST_DATA_LANE, b"h", 1, 0, memoryview(b"x")),)))


@pytest.fixture
def link():
    made = GrpcLink("me", "the other", "session", 20.0)
    yield made
    made.close(0.0)


class Failing(Collector):
    """While it takes a frame, the link ends in another thread."""

    def __init__(self, link: GrpcLink, error: DflowError) -> None:
        super().__init__()
        self.link, self.thread = link, threading.Thread(target=link.fail, args=(error,))

    def arrived(self, lane: int, head: bytes) -> None:
        super().arrived(lane, head)
        self.thread.start()
        assert self.link.over.wait(10)


@pytest.mark.parametrize(("error", "told"), [(LOST, LOST), (CLOSED, None)])
def test_an_end_while_early_frames_are_handed_on_is_told_once_behind_them(link, error, told):
    stream = Stream(lambda: None)
    assert link.attach(stream, 0)
    link.hear(stream, FRAME)
    receiver = Failing(link, error)
    link.begin(receiver)
    receiver.thread.join(10)
    assert (receiver.ends, receiver.frames) == ([told], [(FIRST_DATA_LANE, b"h", b"x")])


@pytest.mark.parametrize(("error", "told"), [(LOST, LOST), (CLOSED, None)])
@pytest.mark.parametrize("begins_first", [True, False])
def test_the_first_end_counts_and_is_told_once(link, error, told, begins_first):
    receiver = Collector()
    if begins_first:
        link.begin(receiver)
    link.fail(error)
    link.fail(LinkLostError("later"))
    if not begins_first:
        link.begin(receiver)
    assert receiver.ends == [told]


@pytest.mark.parametrize("begins_first", [True, False])
def test_who_closed_is_told_nothing(link, begins_first):
    receiver = Collector()
    if begins_first:
        link.begin(receiver)
    link.close(0.0)
    link.fail(LOST)
    if not begins_first:
        link.begin(receiver)
    assert receiver.ends == []
