"""Protobuf's wire format, read only, for engines that look into model files: walks messages without their schema.

Nothing is copied but what is asked for, so a model of many megabytes is walked in the time its field heads take.
Reading is bounded by the buffer, whatever the bytes are.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

WireBuffer: TypeAlias = "bytes | mmap.mmap"

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_MAX_VARINT = 10
_MAX_DEPTH = 64


class WireError(ValueError):
    """Bytes that are no protobuf message of the expected kind; `offset` says where."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of a message.

    Args:
        number: Its number in the message.
        kind: Wire type: VARINT, FIXED64, BYTES or FIXED32.
        value: The number, for VARINT; unsigned.
        start, end: Where its bytes lie in the buffer, for the other kinds.
    """

    number: int
    kind: int
    value: int
    start: int
    end: int

    @property
    def is_number(self) -> bool:
        """Whether it holds a number."""
        return self.kind == VARINT


@dataclass(frozen=True, slots=True)
class WireMessage:
    """A stretch of a buffer that holds one message."""

    buffer: WireBuffer
    start: int
    end: int
    depth: int = 0

    @classmethod
    def whole(cls, buffer: WireBuffer) -> WireMessage:
        """The message that fills a buffer."""
        return cls(buffer, 0, len(buffer))

    def fields(self) -> Iterator[WireField]:
        """Its fields in order.

        Raises:
            WireError: where the bytes are no field or reach beyond the message.
        """
        at, buffer, end = self.start, self.buffer, self.end
        while at < end:
            head = at
            tag, at = _varint(buffer, at, end)
            number, kind = tag >> 3, tag & 7
            if number == 0:
                raise WireError("field number 0", head)
            value, start = 0, at
            if kind == VARINT:
                value, at = _varint(buffer, at, end)
            elif kind == BYTES:
                size, start = _varint(buffer, at, end)
                at = start + size
            elif kind in (FIXED64, FIXED32):
                at = start + (8 if kind == FIXED64 else 4)
            else:
                raise WireError(f"unknown wire type {kind}", head)
            if at > end:
                raise WireError(f"field {number} reaches {at - end} bytes beyond its end", head)
            yield WireField(number, kind, value, start, at)

    def inner(self, field: WireField) -> WireMessage:
        """The message a field holds.

        Raises:
            WireError: if the field cannot hold one, or messages nest too deep.
        """
        if field.kind != BYTES:
            raise WireError(f"field {field.number} is no message", field.start)
        if self.depth >= _MAX_DEPTH:
            raise WireError("messages nest too deep", field.start)
        return WireMessage(self.buffer, field.start, field.end, self.depth + 1)

    def text(self, field: WireField) -> str:
        """The text a field holds.

        Raises:
            WireError: if it holds no UTF-8 text.
        """
        if field.kind != BYTES:
            raise WireError(f"field {field.number} is no text", field.start)
        try:
            return self.buffer[field.start : field.end].decode("utf-8")
        except UnicodeDecodeError:
            raise WireError(f"field {field.number} is no UTF-8 text", field.start) from None

    def parts(self, number: int) -> Iterator[WireMessage]:
        """The messages that the fields of a number hold, in order.

        Raises:
            WireError: as for `fields` and `inner`.
        """
        return (self.inner(field) for field in self.fields() if field.number == number)

    def texts(self, number: int) -> Iterator[str]:
        """The texts that the fields of a number hold, in order.

        Raises:
            WireError: as for `fields` and `text`.
        """
        return (self.text(field) for field in self.fields() if field.number == number)

    def number(self, field: WireField) -> int:
        """The signed 64-bit number a field holds.

        Raises:
            WireError: if it holds no number.
        """
        if field.kind != VARINT:
            raise WireError(f"field {field.number} is no number", field.start)
        return field.value - (1 << 64) if field.value >> 63 else field.value

    def numbers(self, field: WireField) -> list[int]:
        """The numbers of a repeated field, packed or not."""
        if field.kind == VARINT:
            return [self.number(field)]
        if field.kind != BYTES:
            raise WireError(f"field {field.number} holds no numbers", field.start)
        found, at = [], field.start
        while at < field.end:
            value, at = _varint(self.buffer, at, field.end)
            found.append(value - (1 << 64) if value >> 63 else value)
        return found


def _varint(buffer: WireBuffer, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    for step in range(_MAX_VARINT):
        if at + step >= end:
            raise WireError("the data ends inside a number", at)
        byte = buffer[at + step]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at + step + 1
        shift += 7
    raise WireError("a number is longer than ten bytes", at)
