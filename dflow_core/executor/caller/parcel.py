"""One transaction on its way into a graph: values, then blocks, then blocks with its id in their heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dflow_core.executor.outcomes import Channel
from dflow_core.message import Alloc, Block, DataFlag, FeedInfo, FlowMsg, MsgInfo, PlainBlock, encode

NO_INFO = FeedInfo()


@dataclass(slots=True)
class Parcel:
    """One transaction on its way into a graph.

    Args:
        values: What is fed, by input.
        info: What goes with it.
        channel: Where its outcomes go.
        packed: The values that are in blocks already.
        trans_id: Its id; 0 before it is sent.
        deadline: When it has to end, on the monotonic clock; None for no limit.
    """

    values: Mapping[int, object]
    info: FeedInfo
    channel: Channel
    packed: dict[int, PlainBlock | FlowMsg] = field(default_factory=dict)
    trans_id: int = 0
    deadline: float | None = None

    @property
    def ports(self) -> tuple[int, ...]:
        """Inputs it is fed to, in order."""
        return tuple(self.values) if len(self.values) == 1 else tuple(sorted(self.values))

    def pack(self, port: int, alloc: Alloc) -> None:
        """Put the value of an input into a block; whatever is wrong with it or with memory is raised here."""
        value, info = self.values[port], self.info
        plain = PlainBlock.of(value, alloc) if info is NO_INFO else None
        if plain is not None:
            self.packed[port] = plain
            return
        head = MsgInfo(
            start_time=info.start_time, end_time=info.end_time, flags=info.flow_flags, user_data=info.user_data,
            route_label=info.route_label,
        )
        self.packed[port] = encode(value, head, alloc)

    def finish(self, ports: Sequence[int], trans_id: int, token: int) -> dict[int, Block]:
        """Write the id into every head; gives the blocks, by input in order.

        Args:
            ports: Its `ports`.
            trans_id, token: What goes into the heads.
        """
        self.trans_id = trans_id
        data_flag = DataFlag.CUSTOM_ID if self.info.transaction_id else 0
        return {port: _finished(self.packed[port], trans_id, token, data_flag) for port in ports}


def _finished(packed: PlainBlock | FlowMsg, trans_id: int, token: int, data_flag: int) -> Block:
    if isinstance(packed, PlainBlock):
        return packed.finish(trans_id, token, data_flag)
    info = packed.info
    info.trans_id, info.token, info.data_flag = trans_id, token, info.data_flag | data_flag
    packed.write_head()
    assert packed.block is not None
    return packed.block
