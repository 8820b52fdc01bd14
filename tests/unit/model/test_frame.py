from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.errors import ModelFormatError
from dflow_core.model.frame import (
    BytesSource,
    FileSource,
    Frame,
    FrameReader,
    frame_chunks,
    frame_size,
    padding,
    read_frame,
)

FRAMES = st.builds(Frame, st.binary(max_size=200), st.lists(st.binary(max_size=200), max_size=5).map(tuple))
GIB = 1 << 30


def to_bytes(frame: Frame) -> bytes:
    return b"".join(frame_chunks(frame))


@given(FRAMES)
def test_a_frame_survives_the_round_trip(frame):
    data = to_bytes(frame)
    assert read_frame(data) == read_frame(memoryview(data)) == read_frame(bytearray(data)) == frame
    assert len(data) == frame_size(len(frame.head), [len(s) for s in frame.sections])


@given(FRAMES)
def test_sections_and_the_end_lie_on_multiples_of_64(frame):
    chunks = frame_chunks(frame)
    at = 0
    for chunk in chunks:
        if any(chunk is section for section in frame.sections):
            assert at % 64 == 0
        at += len(chunk)
    assert at % 64 == 0


def test_sections_are_not_copied_when_written():
    section = bytes(1000)
    assert any(chunk is section for chunk in frame_chunks(Frame(b"", (section,))))


@given(FRAMES, st.data())
def test_a_cut_frame_is_refused(frame, data):
    whole = to_bytes(frame)
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(ModelFormatError, match="cut off") as caught:
        read_frame(whole[:length])
    assert 0 <= caught.value.offset <= length


@given(FRAMES, st.data())
def test_a_changed_byte_never_crashes_or_allocates(frame, data):
    broken = bytearray(to_bytes(frame))
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        found = read_frame(broken)
    except ModelFormatError:
        return
    assert len(found.head) + sum(map(len, found.sections)) <= len(broken)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    try:
        read_frame(data)
    except ModelFormatError as error:
        assert error.offset is not None


def test_trailing_bytes_are_refused():
    with pytest.raises(ModelFormatError, match="64 bytes too many"):
        read_frame(to_bytes(Frame(b"h", (b"s",))) + bytes(64))


def test_sizes_beyond_4_gib_are_counted_in_64_bits():
    """No allocation: only the arithmetic of sections whose sum is far beyond 32 bits."""
    sizes = [3 * GIB + 1, 5 * GIB, 7]
    assert frame_size(100, sizes) == 192 + (3 * GIB + 64) + 5 * GIB + 64
    assert padding(5 * GIB + 1) == 63


class Endless:
    """Claims to be huge and gives zeros, so that large offsets are used without large memory."""

    path = None
    size = 1 << 43

    def __init__(self, start: bytes) -> None:
        self.start = start
        self.asked: list[tuple[int, int]] = []

    def read(self, offset: int, size: int) -> bytes:
        self.asked.append((offset, size))
        return self.start[offset : offset + size] if offset < len(self.start) else b""


def test_sections_beyond_4_gib_are_asked_for_at_64_bit_offsets():
    sizes = (5 * GIB, 6 * GIB)
    start = b"dflowfr1" + b"".join(n.to_bytes(8, "little") for n in (16, 2, *sizes)) + bytes(24)
    source = Endless(start)
    frame = FrameReader(source, 0, frame_size(16, sizes), "it").read()
    assert frame.sections == (b"", b"")
    assert (64, 5 * GIB) in source.asked and (64 + 5 * GIB, 6 * GIB) in source.asked


def test_a_size_near_2_to_the_64_costs_nothing():
    data = b"dflowfr1" + (2**64 - 1).to_bytes(8, "little") + (2**64 - 1).to_bytes(8, "little") + bytes(40)
    with pytest.raises(ModelFormatError, match="cut off"):
        read_frame(data)


def test_a_file_is_read_in_pieces_and_by_offset(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("dflow_core.model.frame._PIECE", 7)
    path = tmp_path / "f"
    path.write_bytes(bytes(range(100)))
    fd = os.open(path, os.O_RDONLY)
    try:
        source = FileSource(fd, str(path))
        assert source.read(5, 60) == bytes(range(5, 65))
        os.truncate(path, 20)
        with pytest.raises(ModelFormatError, match="became shorter"):
            source.read(5, 60)
    finally:
        os.close(fd)


def test_memory_of_any_element_type_counts_in_bytes():
    source = BytesSource(memoryview(b"12345678").cast("I"))
    assert (source.size, source.read(1, 3)) == (8, b"234")
