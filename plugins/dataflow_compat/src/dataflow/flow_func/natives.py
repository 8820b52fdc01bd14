"""Messages and tensors as the native module of functions has them, over those of the core."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import numpy as np

from dataflow import codes
from dataflow.data_type import DType, dtype_of
from dataflow.data_wrapper import DataType
from dataflow.tensor import MAX_RANK
from dataflow.utils.errors import DfException
from dflow_core import message
from dflow_core.errors import UsageError
from dflow_core.types import Array

__all__ = ["FlowBufferFactory", "FlowFlag", "FlowMsg", "MsgType", "Tensor"]


class MsgType(enum.IntEnum):
    """What a message carries."""

    MSG_TYPE_TENSOR_DATA = 0
    MSG_TYPE_RAW_MSG = 1
    MSG_TYPE_TORCH_TENSOR_MSG = 1023
    MSG_TYPE_USER_DEFINE_START = 1024
    MSG_TYPE_PICKLED_MSG = 65535


class FlowFlag(enum.IntEnum):
    """Flags that travel with data."""

    FLOW_FLAG_EOS = 1
    FLOW_FLAG_SEG = 2


class Tensor:
    """A tensor inside a function.

    Args:
        array: Its elements; one empty uint8 element if not given.
    """

    def __init__(self, array: Array | None = None) -> None:
        self._array: Array = np.zeros(0, np.uint8) if array is None else array

    def native_array(self) -> Array:
        """The elements, without a copy."""
        return self._array

    def __array__(self, dtype: np.dtype[np.generic] | None = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype=dtype, copy=copy)

    def get_shape(self) -> list[int]:
        """Dimensions."""
        return list(self._array.shape)

    def get_dtype(self) -> DataType:
        """Element type."""
        return dtype_of(self._array).dtype

    def get_data(self) -> memoryview:
        """The bytes, to read."""
        return memoryview(_bytes_of(self._array)).toreadonly()

    def get_writable_data(self) -> memoryview:
        """The bytes, to fill; only those of a tensor of the function's own can be."""
        return memoryview(_bytes_of(self._array))

    def get_data_size(self) -> int:
        """Bytes of the data."""
        return self._array.nbytes

    def get_element_cnt(self) -> int:
        """Number of elements."""
        return self._array.size

    def reshape(self, shape: Sequence[int]) -> int:
        """Give it another shape, in place; 0, or 164000 if the number of elements would differ."""
        if len(shape) > MAX_RANK or any(dim < 0 for dim in shape):
            return codes.FUNC_ERR_PARAM_INVALID
        try:
            self._array = self._array.reshape(tuple(shape))
        except ValueError:
            return codes.FUNC_ERR_PARAM_INVALID
        return codes.FUNC_SUCCESS

    def __repr__(self) -> str:
        dims = "".join(f"{dim}, " for dim in self._array.shape)
        return (
            f"Tensor(shape=[{dims}], data_type={int(self.get_dtype())}, data_size={self.get_data_size()}, "
            f"element_cnt={self.get_element_cnt()}, data=...)"
        )


class FlowMsg:
    """A message inside a function.

    Args:
        core: The core's message; an empty one if not given.
    """

    def __init__(self, core: message.FlowMsg | None = None) -> None:
        self.core = message.FlowMsg() if core is None else core

    def get_msg_type(self) -> MsgType | int:
        """What it carries."""
        number = self.core.get_msg_type()
        return MsgType(number) if number in _KNOWN else number

    def set_msg_type(self, msg_type: int) -> None:
        """Say what it carries."""
        _put(self.core.set_msg_type, msg_type)

    def get_tensor(self) -> Tensor | None:
        """Its tensor, or None."""
        array = self.core.get_tensor()
        return None if array is None else Tensor(array)

    def native_array(self) -> Array:
        """The elements of its tensor, without a copy.

        Raises:
            DfException: it has none.
        """
        array = self.core.get_tensor()
        if array is None:
            raise DfException("the message has no tensor")
        return array

    def get_raw_data(self) -> memoryview | None:
        """Its bytes, or None."""
        return self.core.get_raw_data()

    def get_ret_code(self) -> int:
        """Its code; 0 is good."""
        return self.core.get_ret_code()

    def set_ret_code(self, ret_code: int) -> None:
        """Set its code."""
        _put(self.core.set_ret_code, ret_code)

    def get_start_time(self) -> int:
        """Time stamp of the start."""
        return self.core.get_start_time()

    def set_start_time(self, start_time: int) -> None:
        """Set the time stamp of the start."""
        _put(self.core.set_start_time, start_time)

    def get_end_time(self) -> int:
        """Time stamp of the end."""
        return self.core.get_end_time()

    def set_end_time(self, end_time: int) -> None:
        """Set the time stamp of the end."""
        _put(self.core.set_end_time, end_time)

    def get_flow_flags(self) -> int:
        """Flags."""
        return self.core.get_flow_flags()

    def set_flow_flags(self, flow_flags: int) -> None:
        """Set the flags."""
        _put(self.core.set_flow_flags, flow_flags)

    def set_route_label(self, route_label: int) -> None:
        """Set what decides which instance gets it; 0 is nothing."""
        _put(self.core.set_route_label, route_label)

    def get_transaction_id(self) -> int:
        """Its transaction."""
        return self.core.get_transaction_id()

    def set_transaction_id(self, transaction_id: int) -> None:
        """Set its transaction."""
        _put(self.core.set_transaction_id, transaction_id)

    def __repr__(self) -> str:
        return (
            f"FlowMsg(msg_type={int(self.core.get_msg_type())}, tensor=..., ret_code={self.get_ret_code()}, "
            f"start_time={self.get_start_time()}, end_time={self.get_end_time()}, flow_flags={self.get_flow_flags()})"
        )


_KNOWN = frozenset(int(member) for member in MsgType)


class FlowBufferFactory:
    """Makes tensors."""

    @staticmethod
    def alloc_tensor(shape: Sequence[int], dtype: DType | DataType, align: int = 64) -> Tensor:
        """A tensor to fill; `align` is not looked at."""
        from dataflow.data_type import get_python_dtype_from_dwrapper_dtype
        from dataflow.runtime import numpy_type_of

        found = dtype if isinstance(dtype, DType) else get_python_dtype_from_dwrapper_dtype(dtype)
        return Tensor(np.empty(tuple(shape), np.dtype(numpy_type_of(found))))


def _put(setter: Callable[[int], None], number: int) -> None:
    """Set a number of a head.

    Raises:
        TypeError: it does not fit.
    """
    try:
        setter(number)
    except UsageError as error:
        raise TypeError(error.message) from error


def _bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)
