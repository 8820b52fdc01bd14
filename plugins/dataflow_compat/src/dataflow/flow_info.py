"""What travels with a transaction besides its data."""

from __future__ import annotations

import enum

from dataflow.utils.errors import DfException
from dflow_core.message import USER_DATA_SIZE, FeedInfo, MsgInfo

__all__ = ["FlowFlag", "FlowInfo"]


class FlowFlag(enum.IntEnum):
    """Flags that travel with data; may be or-ed."""

    DATA_FLOW_FLAG_EOS = 1
    DATA_FLOW_FLAG_SEG = 2


class FlowInfo:
    """Times, flags, transaction id and user data of what is fed, and of what was fetched.

    Args:
        start_time, end_time: Time stamps; only batches by time look at them.
        flow_flags: `FlowFlag` bits.
        transaction_id: Transaction; 0 lets the framework count.
    """

    MAX_USER_DATA_SIZE = USER_DATA_SIZE

    __slots__ = ("_data_size", "_user_data", "end_time", "flow_flags", "start_time", "transaction_id")

    def __init__(
        self, start_time: int = 0, end_time: int = 0, flow_flags: int = 0, transaction_id: int = 0
    ) -> None:
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
        return FeedInfo(
            self.start_time, self.end_time, int(self.flow_flags), self.transaction_id if keep_id else 0,
            bytes(self._user_data[: self._data_size]),
        )

    @classmethod
    def of(cls, info: MsgInfo) -> FlowInfo:
        """What the head of a message says."""
        made = cls(info.start_time, info.end_time, info.flags, info.trans_id)
        if info.user_data:
            made._user_data[: len(info.user_data)] = info.user_data
        return made

    @staticmethod
    def _check(size: int, offset: int) -> None:
        if size <= 0 or offset < 0 or offset >= USER_DATA_SIZE or offset + size > USER_DATA_SIZE:
            raise DfException(f"user data has {USER_DATA_SIZE} bytes, got size {size} at offset {offset}")

    def __str__(self) -> str:
        return (
            f"FlowInfo(start_time={self.start_time}, end_time={self.end_time}, flow_flags={int(self.flow_flags)}, "
            f"transaction_id={self.transaction_id})"
        )
