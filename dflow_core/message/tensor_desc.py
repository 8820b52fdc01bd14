"""RuntimeTensorDesc: the 1024 bytes in front of a tensor's data (runtime-semantics.md section 3)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dflow_core.errors import TensorError
from dflow_core.message.info import HEAD_SIZE, Bytes
from dflow_core.types import DataType

DESC_SIZE = 1024
DATA_OFFSET = HEAD_SIZE + DESC_SIZE
MAX_RANK = 32

_FORMAT_ND = 3
_DIMS = struct.Struct(f"<{MAX_RANK + 1}q")
_TAIL = struct.Struct("<qqQ")


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """A RuntimeTensorDesc: dtype, shape and byte count of the data behind it.

    `sub_format` is 0 except for strings, where it says how they are laid out (see `payload.py`).
    """

    dtype: DataType
    shape: tuple[int, ...]
    data_size: int
    sub_format: int = 0

    def pack_into(self, buffer: Bytes, offset: int) -> None:
        """Write the 1024 bytes at `offset`."""
        if len(self.shape) > MAX_RANK:
            raise TensorError(f"a tensor has at most {MAX_RANK} dimensions, this one has {len(self.shape)}")
        buffer[offset : offset + DESC_SIZE] = 0
        dims = (len(self.shape), *self.shape, *([0] * (MAX_RANK - len(self.shape))))
        struct.pack_into("<q", buffer, offset + 16, int(self.dtype))
        _DIMS.pack_into(buffer, offset + 24, *dims)
        _TAIL.pack_into(buffer, offset + 552, _FORMAT_ND, self.sub_format, self.data_size)

    @classmethod
    def unpack_from(cls, buffer: Bytes, offset: int) -> TensorDesc:
        """Read it at `offset`.

        Raises:
            TensorError: if the bytes there are no descriptor.
        """
        (number,) = struct.unpack_from("<q", buffer, offset + 16)
        (rank,) = struct.unpack_from("<q", buffer, offset + 24)
        if not 0 <= rank <= MAX_RANK:
            raise TensorError(f"broken tensor descriptor: rank {rank}")
        shape = struct.unpack_from(f"<{rank}q", buffer, offset + 32)
        _, sub_format, size = _TAIL.unpack_from(buffer, offset + 552)
        try:
            return cls(DataType(number), shape, size, sub_format)
        except ValueError:
            raise TensorError(f"broken tensor descriptor: dtype {number}") from None
