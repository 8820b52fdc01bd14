"""RuntimeTensorDesc: the 1024 bytes in front of a tensor's data (runtime-semantics.md section 3).

A stream of messages mostly has few descriptors, so both directions are remembered by content.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dflow_core.errors import TensorError
from dflow_core.message.info import HEAD_SIZE, Bytes
from dflow_core.types import DataType

DESC_SIZE = 1024
DATA_OFFSET = HEAD_SIZE + DESC_SIZE
MAX_RANK = 32

_FORMAT_ND = 3
_REMEMBERED = 1024
_DIMS = struct.Struct(f"<{MAX_RANK + 1}q")
_TAIL = struct.Struct("<qqQ")


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """A RuntimeTensorDesc: dtype, shape and byte count of the data behind it.

    `sub_format` is 0 except for strings, where it says how they are laid out (see `tensors.py`).
    """

    dtype: DataType
    shape: tuple[int, ...]
    data_size: int
    sub_format: int = 0

    def pack_into(self, buffer: Bytes, offset: int) -> None:
        """Write the 1024 bytes at `offset`.

        Raises:
            TensorError: if it has more than 32 dimensions.
        """
        buffer[offset : offset + DESC_SIZE] = packed_desc(self.dtype, self.shape, self.data_size, self.sub_format)

    @classmethod
    def unpack_from(cls, buffer: Bytes, offset: int) -> TensorDesc:
        """Read it at `offset`.

        Raises:
            TensorError: if the bytes there are no descriptor.
        """
        return _unpacked(buffer[offset : offset + DESC_SIZE].tobytes())


@lru_cache(_REMEMBERED)
def packed_desc(dtype: DataType, shape: tuple[int, ...], data_size: int, sub_format: int = 0) -> Bytes:
    """The 1024 bytes of a descriptor; not to be changed.

    Raises:
        TensorError: for more than 32 dimensions.
    """
    if len(shape) > MAX_RANK:
        raise TensorError(f"a tensor has at most {MAX_RANK} dimensions, this one has {len(shape)}")
    buffer = np.zeros(DESC_SIZE, np.uint8)
    dims = (len(shape), *shape, *([0] * (MAX_RANK - len(shape))))
    struct.pack_into("<q", buffer, 16, int(dtype))
    _DIMS.pack_into(buffer, 24, *dims)
    _TAIL.pack_into(buffer, 552, _FORMAT_ND, sub_format, data_size)
    return buffer


@lru_cache(_REMEMBERED)
def _unpacked(data: bytes) -> TensorDesc:
    if len(data) < DESC_SIZE:
        raise TensorError(f"broken tensor descriptor: {len(data)} bytes instead of {DESC_SIZE}")
    (number,) = struct.unpack_from("<q", data, 16)
    (rank,) = struct.unpack_from("<q", data, 24)
    if not 0 <= rank <= MAX_RANK:
        raise TensorError(f"broken tensor descriptor: rank {rank}")
    shape = struct.unpack_from(f"<{rank}q", data, 32)
    if any(dim < 0 for dim in shape):
        raise TensorError(f"broken tensor descriptor: shape {list(shape)}")
    _, sub_format, size = _TAIL.unpack_from(data, 552)
    try:
        return TensorDesc(DataType(number), shape, size, sub_format)
    except ValueError:
        raise TensorError(f"broken tensor descriptor: dtype {number}") from None
