"""The wire reader against bytes that protobuf itself would write, and against anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflow_core.graph.wire import BYTES, VARINT, WireError, WireMessage


def varint(value: int) -> bytes:
    out = b""
    while True:
        value, low = value >> 7, value & 0x7F
        out += bytes([low | (0x80 if value else 0)])
        if not value:
            return out


@given(st.integers(1, 2**29 - 1), st.integers(0, 2**64 - 1))
def test_a_number_comes_back(number: int, value: int) -> None:
    (field,) = WireMessage.whole(varint(number << 3) + varint(value)).fields()
    assert (field.number, field.kind, field.value) == (number, VARINT, value)


@given(st.binary(max_size=200))
def test_bytes_come_back(payload: bytes) -> None:
    data = varint(1 << 3 | BYTES) + varint(len(payload)) + payload
    (field,) = WireMessage.whole(data).fields()
    assert data[field.start : field.end] == payload


def test_a_negative_number_comes_back() -> None:
    message = WireMessage.whole(varint(1 << 3) + varint(2**64 - 5))
    (field,) = message.fields()
    assert message.number(field) == -5


@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_packed_numbers_come_back(values: list[int]) -> None:
    payload = b"".join(map(varint, values))
    message = WireMessage.whole(varint(1 << 3 | BYTES) + varint(len(payload)) + payload)
    (field,) = message.fields()
    assert message.numbers(field) == values


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x08", "ends inside a number"),
        (b"\x08" + b"\xff" * 11, "longer than ten bytes"),
        (b"\x0a\x05ab", "beyond its end"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "beyond its end"),
        (b"\x0b", "unknown wire type 3"),
        (b"\x00\x01", "field number 0"),
        (b"\x09\x01\x02", "beyond its end"),
    ],
)
def test_broken_bytes_are_refused_with_the_place(data: bytes, words: str) -> None:
    with pytest.raises(WireError, match=words) as caught:
        list(WireMessage.whole(data).fields())
    assert 0 <= caught.value.offset <= len(data)


def test_a_field_of_another_kind_is_refused() -> None:
    message = WireMessage.whole(b"\x08\x01\x12\x01\xff")
    number, text = message.fields()
    for call in (message.inner, message.text):
        with pytest.raises(WireError):
            call(number)
    for call in (message.number, message.text):
        with pytest.raises(WireError):
            call(text)


def test_messages_cannot_nest_for_ever() -> None:
    data = b""
    for _ in range(200):
        data = b"\x0a" + varint(len(data)) + data
    message = WireMessage.whole(data)
    with pytest.raises(WireError, match="nest too deep"):
        while True:
            (field,) = message.fields()
            message = message.inner(field)


@given(st.binary(max_size=300))
def test_any_bytes_end_in_fields_or_an_error(data: bytes) -> None:
    try:
        for field in WireMessage.whole(data).fields():
            assert 0 <= field.start <= field.end <= len(data)
    except WireError:
        pass


def test_fields_of_a_number_come_in_order() -> None:
    inner = b"".join(varint(2 << 3 | BYTES) + varint(1) + name for name in (b"a", b"b"))
    data = varint(1 << 3 | BYTES) + varint(len(inner)) + inner + varint(3 << 3) + varint(7)
    message = WireMessage.whole(data + data)
    assert [list(part.texts(2)) for part in message.parts(1)] == [["a", "b"]] * 2
    assert [list(part.parts(9)) for part in message.parts(1)] == [[], []]
    for read in (message.parts, message.texts):
        with pytest.raises(WireError):
            list(read(3))
