"""Tensors of torch and of graphs, over the same memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dataflow.data_type import (
    DT_BF16,
    DT_BOOL,
    DT_DOUBLE,
    DT_FLOAT,
    DT_FLOAT16,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_UINT8,
    DT_UINT16,
    DT_UINT32,
    DT_UINT64,
    DType,
    get_python_dtype_from_dwrapper_dtype,
)
from dataflow.tensor import Tensor
from dataflow.tensor_descs import DESC_SIZE, RuntimeTensorDesc
from dataflow.utils.msg_type_register import get_msg_type_register
from dflow_core.types import Array

if TYPE_CHECKING:
    import torch

__all__ = ["MSG_TYPE_TORCH_TENSOR", "from_torch", "to_torch"]

MSG_TYPE_TORCH_TENSOR = 1023

_NAMES: Mapping[DType, str] = {
    DT_FLOAT: "float32", DT_FLOAT16: "float16", DT_BF16: "bfloat16", DT_INT8: "int8", DT_INT16: "int16",
    DT_INT32: "int32", DT_INT64: "int64", DT_UINT8: "uint8", DT_UINT16: "uint16", DT_UINT32: "uint32",
    DT_UINT64: "uint64", DT_BOOL: "bool", DT_DOUBLE: "float64",
}


class _Writable:
    """The memory of an array, for those who cannot read what is marked read-only."""

    def __init__(self, array: Array) -> None:
        self._array = array
        facts = dict(array.__array_interface__)
        facts["data"] = (facts["data"][0], False)
        self.__array_interface__ = facts


def to_torch(array: Array) -> torch.Tensor:
    """A torch tensor over the memory of an array; nothing is copied, so it must not be written to."""
    import torch

    if array.dtype.name == "bfloat16":
        return to_torch(array.view(np.uint16)).view(torch.bfloat16)
    try:
        return torch.from_dlpack(array)
    except (BufferError, RuntimeError):  # older numpy gives nothing that is marked read-only
        return torch.from_numpy(np.asarray(_Writable(array)))


def from_torch(tensor: torch.Tensor) -> Tensor:
    """A tensor over the memory of a torch tensor on the CPU; one that lies elsewhere is copied.

    Raises:
        TypeError: bfloat16, where `ml_dtypes` is not installed.
    """
    import torch

    from dflow_core.types import bfloat16_dtype

    plain = tensor.detach().cpu().contiguous()
    if plain.dtype is torch.bfloat16:
        dtype = bfloat16_dtype()
        if dtype is None:
            raise TypeError("tensors of bfloat16 need ml_dtypes: pip install ml_dtypes")
        return Tensor.over(plain.view(torch.uint16).numpy().view(dtype))
    return Tensor.over(plain.numpy())


def _convert_df_to_torch_tensor_dtype(dtype: DType) -> torch.dtype:
    """The element type of torch.

    Raises:
        ValueError: torch has none.
    """
    import torch

    name = _NAMES.get(dtype)
    if name is None or not hasattr(torch, name):
        raise ValueError(f"torch has no element type for {dtype}")
    found: torch.dtype = getattr(torch, name)
    return found


def _convert_torch_to_df_tensor_dtype(dtype: torch.dtype) -> DType:
    """The element type of graphs.

    Raises:
        ValueError: graphs have none.
    """
    for known, name in _NAMES.items():
        if str(dtype) == f"torch.{name}":
            return known
    raise ValueError(f"tensors cannot have the element type {dtype}")


def _serialize_with_torch_tensor(tensor: torch.Tensor) -> bytes:
    """A descriptor and the data.

    Raises:
        TypeError: no torch tensor, or one that is not on the CPU.
    """
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu":
        raise TypeError(f"only torch tensors on the CPU can travel, got {tensor!r}")
    plain = tensor.detach().contiguous()
    desc = RuntimeTensorDesc()
    desc.dtype = int(_convert_torch_to_df_tensor_dtype(plain.dtype).dtype)
    desc.shape = list(plain.shape)
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    desc.size = len(data)
    return desc.to_bytes() + data


def _deserialize_with_torch_tensor(buffer: memoryview) -> torch.Tensor:
    """The tensor of a descriptor and its data, over the same memory."""
    import torch

    desc = RuntimeTensorDesc.from_memory(buffer)
    dtype = _convert_df_to_torch_tensor_dtype(get_python_dtype_from_dwrapper_dtype(desc.dtype))
    raw = np.frombuffer(buffer, np.uint8, desc.size, DESC_SIZE)
    if not desc.size:
        return torch.empty(desc.shape, dtype=dtype)
    return to_torch(raw).view(dtype).reshape(desc.shape)


def _register_torch_tensor() -> None:
    """Let torch tensors travel as messages of type 1023."""
    import torch

    get_msg_type_register().register(
        MSG_TYPE_TORCH_TENSOR, torch.Tensor, _serialize_with_torch_tensor,
        _deserialize_with_torch_tensor,
    )
