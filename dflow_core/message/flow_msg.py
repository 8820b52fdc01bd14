"""FlowMsg: a message as nodes and callers see it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dflow_core.errors import UsageError
from dflow_core.message.aux import NO_AUX, Aux
from dflow_core.message.block import Block
from dflow_core.message.info import HEAD_SIZE, Bytes, DataFlag, MsgInfo, MsgType, root_token
from dflow_core.message.tensors import read_tensor
from dflow_core.types import Array


@dataclass(slots=True)
class FlowMsg:
    """A message as nodes and callers see it.

    Args:
        info: Its head.
        body: The payload bytes (descriptor included), or None if there is none.
        aux: Batch members or error.
        block: The block it lies in, if it came from or can go to a queue as it is.
    """

    info: MsgInfo = field(default_factory=MsgInfo)
    body: Bytes | None = None
    aux: Aux = NO_AUX
    block: Block | None = None

    @property
    def is_data(self) -> bool:
        """Whether it carries data: neither skipped, nor an end marker, nor an error."""
        return not self.info.data_flag & (DataFlag.SKIP | DataFlag.END | DataFlag.ERROR)

    @property
    def is_null(self) -> bool:
        """Whether it is a message without data, such as an end of sequence."""
        return bool(self.info.data_flag & DataFlag.NULL)

    @property
    def keys(self) -> Sequence[tuple[int, int]]:
        """Join keys of every message in it: its own and those of its batch members."""
        return tuple(dict.fromkeys([self.info.key, *(m.info.key for m in self.aux.members)]))

    @classmethod
    def from_block(cls, block: Block) -> FlowMsg:
        """Read a message that came out of a queue; its payload is a read-only view of the block."""
        data = block.array()
        info, body_size, aux_size = MsgInfo.unpack(data)
        body = data[HEAD_SIZE : HEAD_SIZE + body_size] if body_size else None
        at = HEAD_SIZE + body_size
        aux = Aux.unpack(data[at : at + aux_size].tobytes()) if aux_size else NO_AUX
        return cls(info, body, aux, block)

    def write_to(self, block: Block) -> None:
        """Write head, payload and aux section into a block of at least `wire_size` bytes."""
        aux = self.aux.pack()
        body_size = 0 if self.body is None else self.body.nbytes
        data = block.array(writable=True)
        self.info.pack_into(data, body_size, len(aux))
        if self.body is not None:
            data[HEAD_SIZE : HEAD_SIZE + body_size] = self.body
        if aux:
            at = HEAD_SIZE + body_size
            data[at : at + len(aux)] = np.frombuffer(aux, np.uint8)

    def write_head(self) -> None:
        """Write a changed head back into the message's own block, which nobody else holds yet."""
        if self.block is None:
            raise UsageError("the message lies in no block")
        self.info.rewrite(self.block.array(writable=True))

    @property
    def wire_size(self) -> int:
        """Bytes a block needs for it."""
        return HEAD_SIZE + (0 if self.body is None else self.body.nbytes) + len(self.aux.pack())

    # The accessors of python-api.md section 12.3.

    def get_msg_type(self) -> int:
        """Kind of payload, a `MsgType` or a user's number."""
        return self.info.msg_type

    def set_msg_type(self, msg_type: int) -> None:
        """Set the kind of payload (unsigned 16 bit)."""
        self.info.msg_type = _fitting("msg_type", msg_type, 16)

    def get_tensor(self) -> Array | None:
        """The tensor as a read-only array, or None if the message has none."""
        if self.body is None or self.is_null or self.info.msg_type != MsgType.TENSOR:
            return None
        return read_tensor(self.body)

    def get_raw_data(self) -> memoryview | None:
        """The payload bytes, or None if there are none."""
        return None if self.body is None else memoryview(self.body)

    def get_ret_code(self) -> int:
        """Status; 0 is good."""
        return self.info.ret_code

    def set_ret_code(self, ret_code: int) -> None:
        """Set the status; users have 9900000 to 9999999."""
        self.info.ret_code = _fitting("ret_code", ret_code, 32, signed=True)

    def get_start_time(self) -> int:
        """User time stamp of the start."""
        return self.info.start_time

    def set_start_time(self, start_time: int) -> None:
        """Set the user time stamp of the start."""
        self.info.start_time = _fitting("start_time", start_time, 64)

    def get_end_time(self) -> int:
        """User time stamp of the end."""
        return self.info.end_time

    def set_end_time(self, end_time: int) -> None:
        """Set the user time stamp of the end."""
        self.info.end_time = _fitting("end_time", end_time, 64)

    def get_flow_flags(self) -> int:
        """`Flag` bits."""
        return self.info.flags

    def set_flow_flags(self, flags: int) -> None:
        """Set the `Flag` bits."""
        self.info.flags = _fitting("flags", flags, 32)

    def set_route_label(self, route_label: int) -> None:
        """Set the routing key; 0 is none."""
        self.info.route_label = _fitting("route_label", route_label, 32)

    def get_transaction_id(self) -> int:
        """Transaction id."""
        return self.info.trans_id

    def set_transaction_id(self, trans_id: int) -> None:
        """Set the transaction id; the message then counts for that transaction."""
        self.info.trans_id = trans_id = _fitting("trans_id", trans_id, 64)
        self.info.data_flag |= DataFlag.CUSTOM_ID
        self.info.token = root_token(trans_id)


def _fitting(what: str, value: int, bits: int, *, signed: bool = False) -> int:
    """A number that has room in a head.

    Raises:
        UsageError: it has not, or it is no whole number.
    """
    low, high = (-(1 << bits - 1), 1 << bits - 1) if signed else (0, 1 << bits)
    try:
        number = operator.index(value)
    except TypeError as error:
        raise UsageError(f"{what} of a message: expected a whole number, got {value!r}") from error
    if not low <= number < high:
        raise UsageError(f"{what} of a message: expected {low} to {high - 1}, got {value!r}")
    return number
