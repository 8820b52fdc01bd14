"""Head of a message: what it is, which transaction and part it belongs to, user data.

Part tokens tell when a transaction is complete although nodes multiply and swallow messages. The root message of a
transaction has the token `root_token(trans_id)`. A 1:1 node passes the token on. A node that turns one message into
several gives each a new token and ends with an END marker whose token is the xor of all of them and its input's;
so the xor of everything that arrives, started with the root token, is zero exactly when all has arrived (the
acker of Apache Storm works this way).
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from dflow_core.errors import TensorError

HEAD_SIZE = 256
ALIGN_FAILED = 364000
"""Code of what stands in for a message that did not come within the limits of an alignment."""
USER_DATA_SIZE = 64

# User data; at 64 the sizes of body and aux section; at 192 the fields of MsgInfo, data label and route label last.
_HEAD = struct.Struct("<64sQI116xQHHiQQIB3xiIQII")
_SIZES = struct.Struct("<QI")
_SIZES_AT = 64

Bytes: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint8]]


class MsgType(enum.IntEnum):
    """What a payload is; numbers from 1024 up are free for users."""

    TENSOR = 0
    RAW = 1
    TENSOR_LIST = 2
    USER_DEFINE_START = 1024
    PICKLED = 65535


class Flag(enum.IntFlag):
    """Flags the feeding user sets; they travel with the head."""

    NONE = 0
    EOS = 1
    SEG = 2


class DataFlag:
    """What the framework knows of a message; NULL and CUSTOM_ID are upstream's, the rest ours.

    SKIP: the branch was not taken, or the message went into a batch; ends its part without data.
    END: closes the parts a node made of one message. ERROR: the aux section says what failed.
    INJECTED: put in for another message, by the supervisor or a queue that dropped it, so it may come on top of that.

    Plain integers: these bits are tested several times a message, and the operators of `enum.IntFlag` cost a
    microsecond each.
    """

    NONE: Final = 0
    NULL: Final = 1
    CUSTOM_ID: Final = 2
    SKIP: Final = 4
    END: Final = 8
    ERROR: Final = 16
    INJECTED: Final = 32


_TENSOR: Final[int] = MsgType.TENSOR.value


@dataclass(slots=True)
class MsgInfo:
    """Head of a message without its sizes.

    Args:
        trans_id: Transaction id, from 1; 0 lets the framework assign one.
        ret_code: 0 is good.
        start_time, end_time: User time stamps, unsigned 64 bit.
        flags: `Flag` bits.
        data_flag: `DataFlag` bits.
        data_label: Part within the transaction, second half of the join key; 0 is none.
        route_label: Routing key; 0 is none.
        token: Part token.
        user_data: Up to 64 bytes, copied along.
    """

    trans_id: int = 0
    msg_type: int = MsgType.TENSOR
    ret_code: int = 0
    start_time: int = 0
    end_time: int = 0
    flags: int = 0
    data_flag: int = 0
    worker_id: int = 0
    step_id: int = 0
    token: int = 0
    data_label: int = 0
    route_label: int = 0
    version: int = 0
    user_data: bytes = b""

    def pack(self, body_size: int, aux_size: int = 0) -> bytearray:
        """The 256 bytes of the head.

        Raises:
            TensorError: if the user data is longer than 64 bytes.
        """
        head = bytearray(HEAD_SIZE)
        self.pack_into(head, body_size, aux_size)
        return head

    def pack_into(self, buffer: bytearray | Bytes, body_size: int, aux_size: int = 0) -> None:
        """Write the head to the begin of a buffer; see `pack`."""
        if len(self.user_data) > USER_DATA_SIZE:
            raise TensorError(f"user data is {len(self.user_data)} bytes, at most {USER_DATA_SIZE} fit")
        _HEAD.pack_into(
            buffer, 0, self.user_data, body_size, aux_size, self.trans_id, self.version, self.msg_type, self.ret_code,
            self.start_time, self.end_time, self.flags, self.data_flag, self.worker_id, self.step_id, self.token,
            self.data_label, self.route_label,
        )

    @classmethod
    def unpack(cls, head: bytes | bytearray | memoryview | Bytes) -> tuple[MsgInfo, int, int]:
        """The head and the sizes of body and aux section."""
        (user_data, body_size, aux_size, trans_id, version, msg_type, ret_code, start, end, flags, data_flag, worker,
         step, token, label, route) = _HEAD.unpack_from(head)
        info = cls(
            trans_id, msg_type, ret_code, start, end, flags, data_flag, worker, step, token, label, route, version,
            user_data,
        )
        return info, body_size, aux_size

    def derive(self, **changes: object) -> MsgInfo:
        """A copy for an output: good, not null, everything else inherited, then `changes`."""
        made = self.copy()
        made.ret_code = 0
        made.data_flag &= DataFlag.CUSTOM_ID
        made.msg_type = MsgType.TENSOR
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def copy(self) -> MsgInfo:
        """A copy; spelled out, as `dataclasses.replace` takes five times as long and this runs for each message."""
        return MsgInfo(
            self.trans_id, self.msg_type, self.ret_code, self.start_time, self.end_time, self.flags, self.data_flag,
            self.worker_id, self.step_id, self.token, self.data_label, self.route_label, self.version, self.user_data,
        )

    def rewrite(self, buffer: Bytes) -> None:
        """Write the head over another one, whose sizes stay."""
        self.pack_into(buffer, *_SIZES.unpack_from(buffer, _SIZES_AT))

    @property
    def key(self) -> tuple[int, int]:
        """What joins pair by."""
        return self.trans_id, self.data_label


def message_size(head: memoryview | Bytes) -> int:
    """Bytes of a message, as its head says: head, payload and aux section. Its block may have more."""
    body_size, aux_size = _SIZES.unpack_from(head, _SIZES_AT)
    return HEAD_SIZE + int(body_size) + int(aux_size)


def write_plain_head(buffer: Bytes, body_size: int, trans_id: int, token: int, data_flag: int) -> None:
    """The head of a tensor message that says no more than what it belongs to."""
    _HEAD.pack_into(
        buffer, 0, b"", body_size, 0, trans_id, 0, _TENSOR, 0, 0, 0, 0, data_flag, 0, 0, token, 0, 0
    )


_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """Finaliser of splitmix64 (Steele, Lea, Flood 2014): spreads consecutive integers over 64 bits."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def root_token(trans_id: int) -> int:
    """Token of the message that was fed for a transaction."""
    return _mix(trans_id)


def child_token(parent: int, index: int) -> int:
    """Token of part `index` (from 0) made of the message with token `parent`."""
    return _mix(parent ^ _mix(index + 1))
