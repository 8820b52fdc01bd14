"""What travels with a transaction besides its data."""

from __future__ import annotations

import enum
import operator
from typing import overload

from dataflow.utils.errors import DfException
from dflow_core.message import USER_DATA_SIZE, FeedInfo, MsgInfo

__all__ = ["FlowFlag", "FlowInfo"]


class FlowFlag(enum.IntEnum):
    """Flags that travel with data; may be or-ed."""

    DATA_FLOW_FLAG_EOS = 1
    DATA_FLOW_FLAG_SEG = 2


class _Number:
    """A whole number of so many bits that can be read and set.

    Args:
        bits: How many.
    """

    def __init__(self, bits: int) -> None:
        self._limit = 1 << bits

    def __set_name__(self, owner: type[FlowInfo], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, info: None, owner: type[FlowInfo]) -> _Number: ...
    @overload
    def __get__(self, info: FlowInfo, owner: type[FlowInfo]) -> int: ...
    def __get__(self, info: FlowInfo | None, owner: type[FlowInfo]) -> int | _Number:
        return self if info is None else info._numbers[self._name]

    def __set__(self, info: FlowInfo, value: int) -> None:
        number = operator.index(value)
        if not 0 <= number < self._limit:
            raise TypeError(f"{self._name} must be from 0 to {self._limit - 1}, got {value!r}")
        info._numbers[self._name] = number


class FlowInfo:
    """Times, flags, transaction id and user data of what is fed, and of what was fetched.

    Args:
        start_time, end_time: Time stamps of 64 bits; only batches by time look at them.
        flow_flags: `FlowFlag` bits, 32 of them.
        transaction_id: Transaction; 0 lets the framework count.

    Raises:
        TypeError: a number that does not fit, or that is none; also where one is set later.
    """

    MAX_USER_DATA_SIZE = USER_DATA_SIZE

    __slots__ = ("_data_size", "_numbers", "_user_data")

    start_time = _Number(64)
    end_time = _Number(64)
    flow_flags = _Number(32)
    transaction_id = _Number(64)

    def __init__(
        self, start_time: int = 0, end_time: int = 0, flow_flags: int = 0, transaction_id: int = 0
    ) -> None:
        self._numbers: dict[str, int] = {}
        self.start_time = start_time
        self.end_time = end_time
        self.flow_flags = flow_flags
        self.transaction_id = transaction_id
        self._user_data = bytearray(USER_DATA_SIZE)
        self._data_size = 0

    @property
    def user_data(self) -> bytearray:
        """All 64 bytes; what is written into them is sent up to `data_size`."""
        return self._user_data

    @property
    def data_size(self) -> int:
        """Bytes of user data set so far."""
        return self._data_size

    def set_user_data(self, user_data: bytes | bytearray | memoryview, offset: int = 0) -> None:
        """Write user data.

        Args:
            user_data: 1 to 64 bytes.
            offset: Where they begin.

        Raises:
            DfException: they do not lie within the 64 bytes.
        """
        data = bytes(user_data)
        self._check(len(data), offset)
        self._user_data[offset : offset + len(data)] = data
        self._data_size = max(self._data_size, offset + len(data))

    def get_user_data(self, size: int = 0, offset: int = 0) -> bytearray:
        """User data.

        Args:
            size: Bytes wanted; 0 is all from `offset` on.
            offset: Where they begin.

        Raises:
            DfException: they do not lie within the 64 bytes.
        """
        if size == 0:
            size = USER_DATA_SIZE - offset
        self._check(size, offset)
        return self._user_data[offset : offset + size]

    def to_core(self, *, keep_id: bool) -> FeedInfo:
        """The same for the core.

        Args:
            keep_id: Whether the transaction id counts.
        """
        numbers = self._numbers
        return FeedInfo(
            numbers["start_time"], numbers["end_time"], numbers["flow_flags"],
            numbers["transaction_id"] if keep_id else 0, bytes(self._user_data[: self._data_size]),
        )

    @classmethod
    def of(cls, info: MsgInfo) -> FlowInfo:
        """What the head of a message says."""
        made = cls.__new__(cls)
        made._numbers = {
            "start_time": info.start_time, "end_time": info.end_time, "flow_flags": info.flags,
            "transaction_id": info.trans_id,
        }
        made._user_data, made._data_size = bytearray(USER_DATA_SIZE), 0
        if info.user_data:
            made._user_data[: len(info.user_data)] = info.user_data
        return made

    @staticmethod
    def _check(size: int, offset: int) -> None:
        if size <= 0 or offset < 0 or offset >= USER_DATA_SIZE or offset + size > USER_DATA_SIZE:
            raise DfException(f"user data has {USER_DATA_SIZE} bytes, got size {size} at offset {offset}")

    def __str__(self) -> str:
        return (
            f"FlowInfo(start_time={self.start_time}, end_time={self.end_time}, flow_flags={self.flow_flags}, "
            f"transaction_id={self.transaction_id})"
        )
