"""Element types as scripts name them: `DType` objects, one for each type, compared by identity."""

from __future__ import annotations

from typing import Final

import numpy as np

from dataflow.data_wrapper import DataType
from dflow_core import types

__all__ = [
    "DT_BOOL",
    "DT_DOUBLE",
    "DT_FLOAT",
    "DT_FLOAT16",
    "DT_INT8",
    "DT_INT16",
    "DT_INT32",
    "DT_INT64",
    "DT_STRING",
    "DT_UINT8",
    "DT_UINT16",
    "DT_UINT32",
    "DT_UINT64",
    "DType",
    "get_python_dtype_from_dwrapper_dtype",
]


class DType:
    """An element type.

    Args:
        dtype: Its member of the native enumeration.
    """

    def __init__(self, dtype: DataType) -> None:
        self.dtype = dtype

    def __str__(self) -> str:
        return self.dtype.name

    def __repr__(self) -> str:
        return self.dtype.name

    def __reduce__(self) -> str:
        return self.dtype.name  # constants travel by name: they are compared by identity


DT_FLOAT: Final = DType(DataType.DT_FLOAT)
DT_FLOAT16: Final = DType(DataType.DT_FLOAT16)
DT_INT8: Final = DType(DataType.DT_INT8)
DT_INT16: Final = DType(DataType.DT_INT16)
DT_UINT16: Final = DType(DataType.DT_UINT16)
DT_UINT8: Final = DType(DataType.DT_UINT8)
DT_INT32: Final = DType(DataType.DT_INT32)
DT_INT64: Final = DType(DataType.DT_INT64)
DT_UINT32: Final = DType(DataType.DT_UINT32)
DT_UINT64: Final = DType(DataType.DT_UINT64)
DT_BOOL: Final = DType(DataType.DT_BOOL)
DT_DOUBLE: Final = DType(DataType.DT_DOUBLE)
DT_STRING: Final = DType(DataType.DT_STRING)
DT_BF16: Final = DType(DataType.DT_BF16)

_dflow_dtype_to_np_dtype: dict[DType, type[np.generic]] = {
    DT_FLOAT: np.float32,
    DT_FLOAT16: np.float16,
    DT_INT8: np.int8,
    DT_INT16: np.int16,
    DT_UINT16: np.uint16,
    DT_UINT8: np.uint8,
    DT_INT32: np.int32,
    DT_INT64: np.int64,
    DT_UINT32: np.uint32,
    DT_UINT64: np.uint64,
    DT_BOOL: np.bool_,
    DT_DOUBLE: np.float64,
    DT_STRING: np.bytes_,
}

_np_dtype_to_dflow_dtype: dict[np.dtype[np.generic], DType] = {
    np.dtype(numpy_type): dtype for dtype, numpy_type in _dflow_dtype_to_np_dtype.items() if dtype is not DT_STRING
}

_from_number: dict[int, DType] = {int(dtype.dtype): dtype for dtype in (*_dflow_dtype_to_np_dtype, DT_BF16)}


def get_python_dtype_from_dwrapper_dtype(dtype: object) -> DType:
    """The DType of a member of the native enumeration.

    Raises:
        ValueError: there is none.
    """
    found = _from_number.get(int(dtype)) if isinstance(dtype, int) else None
    if found is None:
        raise ValueError(f"The data type {dtype} is not support.")
    return found


def core_type_of(dtype: DType) -> types.DataType:
    """The same type as the core names it."""
    return types.DataType(int(dtype.dtype))


def dtype_of(array: types.Array) -> DType:
    """The DType of an array; strings have one too.

    Raises:
        TensorError: tensors cannot have it.
    """
    known = _np_dtype_to_dflow_dtype.get(array.dtype)
    return known if known is not None else _from_number[int(types.data_type_of(array.dtype))]
