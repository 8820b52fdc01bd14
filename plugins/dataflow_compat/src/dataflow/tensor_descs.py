"""The descriptor that lies in front of the data of every tensor message, 1024 bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dataflow import codes
from dataflow.tensor import MAX_RANK

if TYPE_CHECKING:
    from dataflow.flow_func.flowfunc_wrapper import FlowMsg, MetaRunContext

__all__ = ["DESC_SIZE", "RuntimeTensorDesc", "RuntimeTensorDescMsgProcessor"]

DESC_SIZE: Final = 1024
# address, offset, type, rank and dimensions, the same of the original shape, format, sub-format, bytes, reserved
_LAYOUT: Final = struct.Struct("<Qqq33q33qqqQ448x")
_SHAPE_AT: Final = 3
_SIZE_AT: Final = 3 + 33 + 33 + 2


class RuntimeTensorDesc:
    """Address, type, shape and size of a tensor; dimensions beyond 32 are cut off."""

    def __init__(self) -> None:
        self.address = 0
        self.dtype = 0
        self.size = 0
        self._shape: list[int] = []

    @property
    def shape(self) -> list[int]:
        """Dimensions."""
        return self._shape

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._shape = list(shape)[:MAX_RANK]

    def to_bytes(self) -> bytes:
        """Its 1024 bytes."""
        dims = [len(self._shape), *self._shape, *[0] * (MAX_RANK - len(self._shape))]
        return _LAYOUT.pack(self.address, 0, int(self.dtype), *dims, *dims, 0, 0, self.size)

    @staticmethod
    def from_memory(buffer: bytes | bytearray | memoryview) -> RuntimeTensorDesc:
        """Read one.

        Raises:
            RuntimeError: fewer than 1024 bytes.
        """
        data = memoryview(buffer).cast("B")
        if len(data) < DESC_SIZE:
            raise RuntimeError(f"a tensor descriptor has {DESC_SIZE} bytes, got {len(data)}")
        fields = _LAYOUT.unpack_from(data)
        made = RuntimeTensorDesc()
        made.address, made.dtype, made.size = fields[0], fields[2], fields[_SIZE_AT]
        rank = fields[_SHAPE_AT]
        made.shape = fields[_SHAPE_AT + 1 : _SHAPE_AT + 1 + rank]
        return made


class RuntimeTensorDescMsgProcessor:
    """Messages that hold descriptors only."""

    @staticmethod
    def get_runtime_tensor_descs(msg: FlowMsg, num: int) -> tuple[int, list[RuntimeTensorDesc]]:
        """The first `num` descriptors of a message; 164000 if it is too short."""
        data = msg.get_raw_data()
        if data is None or len(data) < num * DESC_SIZE:
            return codes.FUNC_ERR_PARAM_INVALID, []
        parts = [data[i * DESC_SIZE : (i + 1) * DESC_SIZE] for i in range(num)]
        return codes.FUNC_SUCCESS, [RuntimeTensorDesc.from_memory(part) for part in parts]

    @staticmethod
    def create_runtime_tensor_desc_msg(
        context: MetaRunContext, descs: Sequence[RuntimeTensorDesc]
    ) -> FlowMsg | None:
        """A raw message of descriptors; None if there is no memory."""
        msg = context.alloc_raw_data_msg(len(descs) * DESC_SIZE, 64)
        data = None if msg is None else msg.get_raw_data()
        if data is None:
            return None
        data[:] = b"".join(desc.to_bytes() for desc in descs)
        return msg
