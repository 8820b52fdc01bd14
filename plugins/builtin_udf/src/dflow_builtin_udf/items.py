"""What a batch is made of: one set of messages that arrived together, with what its tensors are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dflow_core.errors import TensorError
from dflow_core.message import Flag, FlowMsg, MsgInfo, MsgType, TensorDesc, describe
from dflow_core.types import TensorSpec


@dataclass(slots=True, eq=False)
class Item:
    """One message per input, as they arrived together.

    Args:
        msgs: The messages; they keep their blocks alive until the item is gone.
        specs: Dtype and shape of each message's tensor; empty if they carry none.
        fault: Why nothing can be done with them, or "".
        parts: How many messages have been sent under its head, where that is a stream of windows.
    """

    msgs: tuple[FlowMsg, ...]
    specs: tuple[TensorSpec, ...] = ()
    fault: str = ""
    parts: int = 0
    token: int = field(init=False)

    def __post_init__(self) -> None:
        self.token = self.info.token

    @classmethod
    def of(cls, msgs: Sequence[FlowMsg]) -> Item:
        """Read what arrived; whatever is wrong with it is in `fault`."""
        specs, nulls = [], 0
        for msg in msgs:
            if msg.info.ret_code:
                return cls(tuple(msgs), fault=f"a message arrived with return code {msg.info.ret_code}")
            if msg.body is None or msg.is_null:
                nulls += 1
            elif msg.info.msg_type != MsgType.TENSOR:
                return cls(tuple(msgs), fault=f"only tensors can be put into a batch, this is an {describe(msg)}")
            else:
                try:
                    desc = TensorDesc.unpack_from(msg.body, 0)
                except TensorError as error:
                    return cls(tuple(msgs), fault=error.message)
                specs.append(TensorSpec(desc.dtype, desc.shape))
        if nulls and specs:
            return cls(tuple(msgs), fault="some inputs carry a tensor and others carry none")
        return cls(tuple(msgs), tuple(specs))

    @property
    def info(self) -> MsgInfo:
        """Head of the first message; outputs inherit it."""
        return self.msgs[0].info

    @property
    def is_null(self) -> bool:
        """Whether it carries no tensors."""
        return not self.specs

    @property
    def is_eos(self) -> bool:
        """Whether a sequence ends with it."""
        return bool(self.info.flags & Flag.EOS)

    @property
    def nbytes(self) -> int:
        """Bytes of its payloads."""
        return sum(msg.body.nbytes for msg in self.msgs if msg.body is not None)


def unfit(first: Item, new: Item, free_dim: int | None = None, any_size: bool = False) -> str:
    """Why an item cannot go into a batch that begins with another, or "" if it can.

    Args:
        first: The first item of the batch.
        new: The item.
        free_dim: Dimension that may differ; None for none.
        any_size: Whether every dimension may differ, as long as the ranks agree.
    """
    if len(first.specs) != len(new.specs):
        return f"expected {len(first.specs)} tensors as before, got {len(new.specs)}"
    for port, (have, got) in enumerate(zip(first.specs, new.specs)):
        if not _fits(have, got, free_dim, any_size):
            where = f" on input {port}" if len(first.specs) > 1 else ""
            return f"got {got}{where} for a batch that began with {have}"
    return ""


def _fits(have: TensorSpec, got: TensorSpec, free_dim: int | None, any_size: bool) -> bool:
    a, b = have.shape or (), got.shape or ()
    if have.dtype is not got.dtype or len(a) != len(b):
        return False
    return any_size or all(x == y for dim, (x, y) in enumerate(zip(a, b)) if dim != free_dim)
