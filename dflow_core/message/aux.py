"""What travels with a message besides head and payload: the members of a batch, or an error."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

from dflow_core.message.info import HEAD_SIZE, MsgInfo


@dataclass(frozen=True, slots=True)
class Member:
    """One message that went into a batch.

    Args:
        info: Its head.
        rows: How many rows along the batch dimension are its own.
    """

    info: MsgInfo
    rows: int = 1


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What failed, as it travels in a message.

    Args:
        kind: `node` (user code or model raised), `raised` (an exception for the transaction), `lost` (executor died),
            `late` (a set was given up), `align` (parts that cannot pair), `dropped`, `usage`.
        message: Text of the exception.
        error_type: Its type name.
        node, instance: Where.
        traceback: Formatted traceback, or last output of a dead process.
        input_shapes: Inputs in words.
        hint: What to do.
        context: Number a function gave along with an exception.
    """

    kind: str
    message: str
    error_type: str = ""
    node: str = ""
    instance: int = 0
    traceback: str = ""
    input_shapes: tuple[str, ...] = ()
    hint: str = ""
    context: int = 0


@dataclass(frozen=True, slots=True)
class Aux:
    """What travels with a message besides head and payload: members of a batch, or an error."""

    members: tuple[Member, ...] = ()
    error: ErrorInfo | None = None

    def __bool__(self) -> bool:
        return bool(self.members) or self.error is not None

    def pack(self) -> bytes:
        """As bytes; empty if there is nothing."""
        if not self:
            return b""
        parts = [struct.pack("<I", len(self.members))]
        for member in self.members:
            parts += [struct.pack("<Q", member.rows), bytes(member.info.pack(0))]
        if self.error is not None:
            fields = {name: getattr(self.error, name) for name in ErrorInfo.__dataclass_fields__}
            parts.append(json.dumps(fields).encode("utf-8", "surrogatepass"))
        return b"".join(parts)

    @classmethod
    def unpack(cls, data: bytes) -> Aux:
        """From bytes."""
        if not data:
            return NO_AUX
        (count,) = struct.unpack_from("<I", data)
        at, members = 4, []
        for _ in range(count):
            (rows,) = struct.unpack_from("<Q", data, at)
            info, _, _ = MsgInfo.unpack(data[at + 8 : at + 8 + HEAD_SIZE])
            members.append(Member(info, rows))
            at += 8 + HEAD_SIZE
        error = None
        if at < len(data):
            fields = json.loads(data[at:].decode("utf-8", "surrogatepass"))
            error = ErrorInfo(**{**fields, "input_shapes": tuple(fields["input_shapes"])})
        return cls(tuple(members), error)


NO_AUX = Aux()


def members_size(count: int) -> int:
    """Bytes the aux section of a batch with that many members takes."""
    return 4 + count * (8 + HEAD_SIZE) if count else 0
