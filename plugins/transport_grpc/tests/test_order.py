"""What is sent and what is put together, without a connection."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.errors import PeerGoneError
from dflow_core.spi import CONTROL_LANE, FIRST_DATA_LANE, GATEWAY_LANE
from dflow_core.testing.link_contract import Collector
from dflow_transport_grpc.channel import MOST_WORD
from dflow_transport_grpc.inbox import Inbox
from dflow_transport_grpc.outbox import PIECE_BYTES, Outbox
from dflow_transport_grpc.words import MOST_HEAD, Kind, Piece, Word, pack, unpack

DATA = FIRST_DATA_LANE
PIECE = Piece(7, DATA, b"head", 10, 0, memoryview(b"0123456789"))


def heads(pieces):
    return [(piece.lane, piece.head, len(piece.data)) for piece in pieces]


@pytest.mark.parametrize("word", [
    Word(Kind.PIECES, 5), Word(Kind.BYE, 1 << 40), Word(Kind.PIECES, 0, (PIECE,)),
    Word(Kind.PIECES, 9, (PIECE, Piece(8, 3, b"", 1 << 33, 4096, memoryview(b"xyz")))),
    Word(Kind.PIECES, 9, (Piece(1, 2, b"", 0, 0, memoryview(b"")),)),
])
def test_words_come_back(word):
    assert unpack(pack(word)) == word


@given(st.binary(max_size=80))
def test_any_bytes_are_a_word_or_refused(data):
    with contextlib.suppress(PeerGoneError):
        unpack(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_altered_words_are_refused_or_words(at, value):
    data = bytearray(pack(Word(Kind.PIECES, 3, (PIECE,))))
    data[at % len(data)] = value
    try:
        for piece in unpack(bytes(data)).pieces:
            assert piece.begin + len(piece.data) <= piece.size
    except PeerGoneError:
        pass


@pytest.mark.parametrize("cut", range(1, 60))
def test_truncated_words_are_refused_or_say_less(cut):
    data = pack(Word(Kind.PIECES, 3, (PIECE,)))
    with contextlib.suppress(PeerGoneError):
        assert unpack(data[:-cut]).pieces == ()


def test_urgent_frames_go_first():
    box = Outbox(piece_bytes=4)
    box.add(DATA, b"d", memoryview(b"12345678"))
    assert heads(box.next()) == [(DATA, b"d", 4)]
    box.add(GATEWAY_LANE, b"g", memoryview(b""))
    box.add(CONTROL_LANE, b"c", memoryview(b"12"))
    found = [piece for _ in range(4) for piece in box.next()]
    assert heads(found) == [(CONTROL_LANE, b"c", 2), (GATEWAY_LANE, b"g", 0), (DATA, b"", 4)]


def test_lanes_take_turns():
    box = Outbox(piece_bytes=4)
    box.add(DATA, b"large", memoryview(bytes(12)))
    box.add(DATA + 1, b"small", memoryview(bytes(2)))
    box.add(DATA + 1, b"next", memoryview(bytes(2)))
    found = [piece for _ in range(6) for piece in box.next()]
    assert heads(found) == [
        (DATA, b"large", 4), (DATA + 1, b"small", 2), (DATA, b"", 4), (DATA + 1, b"next", 2), (DATA, b"", 4),
    ]


def test_small_frames_go_together():
    box = Outbox(piece_bytes=1000)
    for number in range(5):
        box.add(DATA, b"%d" % number, memoryview(bytes(100)))
    assert len(box.next()) == 5


@pytest.mark.parametrize(("count", "size"), [(500, 0), (500, PIECE_BYTES // 64 - 1), (500, PIECE_BYTES - 1), (20, 0)])
def test_no_word_is_larger_than_the_other_end_takes(count, size):
    """Heads as long as they may be, payloads that leave just room for one more piece."""
    box, payload = Outbox(window=1 << 40), memoryview(bytes(PIECE_BYTES))
    for number in range(count):
        box.add(DATA + number % 7, bytes(MOST_HEAD), payload[: size if number % 64 != 63 else PIECE_BYTES])
    while pieces := box.next():
        assert len(pack(Word(Kind.PIECES, 0, pieces))) < MOST_WORD


def test_only_so_much_goes_ahead_of_what_the_other_end_has():
    box = Outbox(piece_bytes=1 << 10, window=8 << 10)
    box.add(DATA, b"", memoryview(bytes(100 << 10)))
    given_out = []
    while pieces := box.next():
        given_out += pieces
    assert 4 <= len(given_out) <= 9
    box.add(CONTROL_LANE, b"urgent", memoryview(b"x"))
    assert heads(box.next())[0][1] == b"urgent"
    box.heard(given_out[-1].number)
    assert box.next()


def test_what_the_other_end_has_not_is_sent_again():
    box = Outbox(piece_bytes=4)
    box.add(DATA, b"h", memoryview(b"0123456789AB"))
    first = [piece for _ in range(3) for piece in box.next()]
    box.resume(1)
    assert [piece for _ in range(3) for piece in box.next()] == first[1:]
    box.heard(3)
    assert box.is_empty


def test_pieces_that_came_before_are_ignored_and_gaps_are_refused():
    box, collector = Inbox(), Collector()
    box.take(Piece(1, DATA, b"h", 4, 0, memoryview(b"01")), collector)
    box.take(Piece(1, DATA, b"h", 4, 0, memoryview(b"01")), collector)
    with pytest.raises(PeerGoneError, match="piece 3 of the link came behind piece 1"):
        box.take(Piece(3, DATA, b"", 4, 2, memoryview(b"23")), collector)
    box.take(Piece(2, DATA, b"", 4, 2, memoryview(b"23")), collector)
    assert collector.frames == [(DATA, b"h", b"0123")]


@pytest.mark.parametrize(("piece", "text"), [
    (Piece(1, DATA, b"", 4, 2, memoryview(b"23")), "continues nothing"),
    (Piece(1, DATA + 1, b"", 1 << 40, 5, memoryview(b"2")), "continues nothing"),
])
def test_pieces_of_no_frame_are_refused(piece, text):
    with pytest.raises(PeerGoneError, match=text):
        Inbox().take(piece, Collector())


def test_a_piece_of_another_frame_is_refused():
    box, collector = Inbox(), Collector()
    box.take(Piece(1, DATA, b"h", 4, 0, memoryview(b"01")), collector)
    with pytest.raises(PeerGoneError, match="belongs to another frame"):
        box.take(Piece(2, DATA, b"", 5, 2, memoryview(b"23")), collector)


FRAMES = st.lists(
    st.tuples(st.integers(0, 5), st.binary(max_size=3), st.integers(0, 40)), min_size=1, max_size=30,
)


@given(FRAMES, st.integers(0, 1 << 32), st.sampled_from([1, 3, 16, 1 << 20]))
def test_whatever_breaks_each_frame_comes_once_in_its_order_and_whole(frames, seed, piece_bytes):
    """Words are lost with a connection at any point; the next one resumes from what each end says."""
    rng = random.Random(seed)
    out, box, collector = Outbox(piece_bytes, window=64 << 10), Inbox(), Collector()
    waiting = [(lane, head, bytes([number % 251]) * size) for number, (lane, head, size) in enumerate(frames)]
    wanted = list(waiting)
    on_the_way: list[bytes] = []
    for _ in range(20_000):
        if not waiting and out.is_empty:
            break
        step = rng.random()
        if waiting and step < 0.3:
            lane, head, payload = waiting.pop(0)
            out.add(lane, head, memoryview(payload))
        elif step < 0.6:
            pieces = out.next()
            if pieces:
                on_the_way.append(pack(Word(Kind.PIECES, 0, pieces)))
        elif step < 0.9 and on_the_way:
            for piece in unpack(on_the_way.pop(0)).pieces:
                box.take(piece, collector)
        elif step < 0.95:
            out.heard(rng.randint(0, box.last))
        elif step < 0.97:  # the connection breaks, and another one is made
            on_the_way.clear()
            out.resume(box.last)
        elif not on_the_way:
            out.heard(box.last)
    assert out.is_empty
    for lane in range(6):
        assert [f for f in collector.frames if f[0] == lane] == [f for f in wanted if f[0] == lane]
