"""Plain tensor messages, which nearly all are: read and made without looking at every field of a head.

Plain is a tensor of numbers, without aux section, return code, user flags (EOS, SEG) or data flags other than
`CUSTOM_ID`. A transport may do both in native code; these are what it has to agree with.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from dflow_core.errors import UsageError
from dflow_core.message.block import Block, block_of
from dflow_core.message.info import HEAD_SIZE, Bytes, DataFlag, MsgType, write_plain_head
from dflow_core.message.tensor_desc import DATA_OFFSET, DESC_SIZE, TensorDesc, packed_desc
from dflow_core.message.tensors import read_tensor
from dflow_core.types import Array, DataType, data_type_of

PLAIN_KINDS: Final = frozenset("biuf")
"""Kinds of numpy dtypes that are sent as they are; a few others are plain too, and looked at by the general code."""

# Body and aux sizes at 64; at 192 transaction, version, type, return code, two times, flags and data flag: info.py.
_SIZES: Final = struct.Struct("<QI")
_SIZES_AT: Final = 64
_FIELDS: Final = struct.Struct("<QHHi16xIB")
_FIELDS_AT: Final = 192
_LABEL: Final = struct.Struct("<I")
_LABEL_AT: Final = 248
_ROUTE_AT: Final = 252
_TRANS_ID: Final = struct.Struct("<Q")


def peek_plain(block: Block) -> tuple[int, Array] | None:
    """Transaction id and read-only array of a plain tensor message; None for every other message."""
    data = block.array()
    body_size, aux_size = _SIZES.unpack_from(data, _SIZES_AT)
    trans_id, _, msg_type, ret_code, flags, data_flag = _FIELDS.unpack_from(data, _FIELDS_AT)
    if msg_type != MsgType.TENSOR or aux_size or ret_code or flags or data_flag & ~DataFlag.CUSTOM_ID:
        return None
    body = data[HEAD_SIZE : HEAD_SIZE + body_size]
    if TensorDesc.unpack_from(body, 0).dtype is DataType.STRING:
        return None
    return trans_id, read_tensor(body)


def label_of(block: Block) -> int:
    """The part within its transaction that a message says it is."""
    label: int = _LABEL.unpack_from(block.array(), _LABEL_AT)[0]
    return label


def routing_of(block: Block) -> tuple[int, int]:
    """Transaction and route label of a message, which say where it goes."""
    data = block.array()
    return _TRANS_ID.unpack_from(data, _FIELDS_AT)[0], _LABEL.unpack_from(data, _ROUTE_AT)[0]


@dataclass(slots=True)
class PlainBlock:
    """A plain tensor in a block, with no head yet.

    Args:
        block: The block.
        data: All of it.
        body_size: Bytes of descriptor and data.
    """

    block: Block
    data: Bytes
    body_size: int

    @classmethod
    def of(cls, value: object, alloc: Callable[[int], Block]) -> PlainBlock | None:
        """A value copied into a fresh block; None if it is no array, is not plain or lies in a block already.

        Raises:
            TensorError: the dtype cannot be sent.
        """
        if type(value) is not np.ndarray or value.dtype.kind not in PLAIN_KINDS:
            return None
        if value.base is not None and block_of(value) is not None:
            return None
        data_type, size = data_type_of(value.dtype), value.nbytes
        desc = packed_desc(data_type, value.shape, size)
        block = alloc(DATA_OFFSET + size)
        data = block.array(writable=True)
        data[HEAD_SIZE:DATA_OFFSET] = desc
        native = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
        np.copyto(np.ndarray(value.shape, native, data, DATA_OFFSET), value)
        return cls(block, data, DESC_SIZE + size)

    def finish(self, trans_id: int, token: int, data_flag: int) -> Block:
        """Write the head; gives the block, ready to be put into a queue."""
        write_plain_head(self.data, self.body_size, trans_id, token, data_flag)
        return self.block


def copy_like(head: Block, array: Array, alloc: Callable[[int], Block]) -> Block:
    """A block with the head of a plain tensor message and another array, copied in.

    Args:
        head: A block for which `peek_plain` gives a tensor; all but the size of its body is copied from its head.
        array: Any dtype a tensor can have but strings; any layout.
        alloc: Gives a block of that many bytes.

    Raises:
        TensorError: the dtype cannot be sent.
        UsageError: strings, which are not plain.
    """
    data_type = data_type_of(array.dtype)
    if data_type is DataType.STRING:
        raise UsageError("a tensor of strings is no plain message")
    block = alloc(DATA_OFFSET + array.nbytes)
    data = block.array(writable=True)
    data[:HEAD_SIZE] = head.array()[:HEAD_SIZE]
    _SIZES.pack_into(data, _SIZES_AT, DESC_SIZE + array.nbytes, 0)
    data[HEAD_SIZE:DATA_OFFSET] = packed_desc(data_type, array.shape, array.nbytes)
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    np.copyto(np.ndarray(array.shape, native, data, DATA_OFFSET), array)
    return block
