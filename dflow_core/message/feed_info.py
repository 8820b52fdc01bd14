"""What a caller can say about a transaction, and reads back with its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import SupportsIndex

from dflow_core.errors import UsageError
from dflow_core.message.info import MsgInfo

_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class FeedInfo:
    """What travels in the head of fed messages (upstream: DataFlowInfo).

    Args:
        start_time, end_time: User time stamps, unsigned 64 bit.
        flow_flags: `Flag` bits.
        transaction_id: Transaction; 0 lets dflow count.
        user_data: Up to 64 bytes.
        route_label: Key by which nodes with `dispatch="sticky"`, or placed by a deploy file, pick an instance, such as
            the number of a camera; 0 is none.
        versions: Of a result: versions of the nodes that were updated before it, by path (`FlowGraph.update`); all
            others worked in their first. Not looked at when it is fed.

    Raises:
        UsageError: a number is negative, too large or not whole, or the user data is not bytes.
    """

    start_time: int = 0
    end_time: int = 0
    flow_flags: int = 0
    transaction_id: int = 0
    user_data: bytes = b""
    route_label: int = 0
    versions: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("start_time", "end_time", "flow_flags", "transaction_id", "route_label"):
            value = getattr(self, name)
            if type(value) is not int and not isinstance(value, SupportsIndex):  # asking the protocol takes 5 us
                raise UsageError(f"FeedInfo({name}=...): expected a whole number, got {value!r}")
        data: object = self.user_data
        if not isinstance(data, (bytes, bytearray, memoryview)):
            hint = "encode texts: text.encode()"
            raise UsageError(f"FeedInfo(user_data=...): expected bytes, got {data!r}", hint=hint)
        times = self.start_time | self.end_time | self.transaction_id
        if not (0 <= times <= _U64 and 0 <= self.flow_flags | self.route_label <= _U32):
            raise UsageError(f"a number is out of range in {self!r}: times and ids have 64 bits, flags and labels 32")

    @classmethod
    def of(cls, info: MsgInfo, versions: Mapping[str, int] | None = None) -> FeedInfo:
        """What a head says, and which versions of nodes made it."""
        head = info.start_time, info.end_time, info.flags, info.trans_id, info.user_data, info.route_label
        return cls(*head, dict(versions or {}))
