"""Tensors as scripts have them: an array that was copied in, or a view of a message that came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from dataflow import codes
from dataflow.data_type import (
    DT_BF16,
    DT_STRING,
    DType,
    _dflow_dtype_to_np_dtype,
    _np_dtype_to_dflow_dtype,
    dtype_of,
)
from dataflow.utils import log
from dataflow.utils.errors import DfException
from dflow_core.message import FlowMsg
from dflow_core.types import Array

__all__ = ["BaseData", "Tensor", "TensorDesc"]

MAX_RANK = 32


class TensorDesc:
    """Element type and shape of a tensor.

    Args:
        dtype: Element type.
        shape: Dimensions.

    Raises:
        DfException: 145022 for something else than a DType, 145021 for something else than a list of int.
    """

    def __init__(self, dtype: DType, shape: Sequence[int]) -> None:
        if not isinstance(dtype, DType):
            raise DfException(f"dtype must be a DType, got {dtype!r}", codes.DATATYPE_INVALID)
        if not isinstance(shape, (list, tuple)) or not all(isinstance(dim, int) for dim in shape):
            raise DfException(f"shape must be a list or tuple of int, got {shape!r}", codes.SHAPE_INVALID)
        self._dtype = dtype
        self._shape = list(shape)

    def __str__(self) -> str:
        return f"TensorDesc(dtype={self._dtype}, shape={self._shape})"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorDesc):
            return False
        return self._dtype is other._dtype and self._shape == other._shape

    __hash__ = None  # type: ignore[assignment]  # as upstream: descriptions are compared, never keys

    def matches(self, array: Array) -> bool:
        """Whether an array is as described."""
        return _np_dtype_to_dflow_dtype.get(array.dtype) is self._dtype and list(array.shape) == self._shape


class BaseData:
    """What a graph takes."""

    @property
    def cls_type(self) -> type[BaseData]:
        """The class."""
        return type(self)


class Tensor(BaseData):
    """A tensor.

    Args:
        data: An array or what `numpy.array` takes, another Tensor, or a message with a tensor. It is copied.
        tensor_desc: What it must be; its element type is converted if it has another one.

    Raises:
        DfException: 145021 for another shape, 145022 for an element type tensors cannot have, 145000 for an array that
            does not lie in one piece.
        ValueError: the elements cannot be converted.
    """

    __slots__ = ("_desc", "_flow_msg", "_impl", "_is_udf")

    def __init__(self, data: object, *, tensor_desc: TensorDesc | None = None) -> None:
        self._flow_msg: FlowMsg | None = None
        self._is_udf = False
        if isinstance(data, Tensor):
            array = data._impl
            self._is_udf = data._is_udf and tensor_desc is None
        else:
            array = array_of(data)
        self._impl: Array = np.array(checked_array(array, tensor_desc), order="C")
        self._desc: TensorDesc | None = tensor_desc

    @classmethod
    def over(cls, array: Array, msg: FlowMsg | None = None, *, in_function: bool = False) -> Tensor:
        """A tensor over an array, without a copy.

        Args:
            array: The array.
            msg: The message it lies in.
            in_function: Whether it belongs to a function rather than to the caller of a graph.
        """
        made = cls.__new__(cls)
        made._impl = array
        made._flow_msg = msg
        made._desc = None
        made._is_udf = in_function
        return made

    @property
    def _tensor_desc(self) -> TensorDesc | None:
        if self._desc is None and not self._is_udf:
            self._desc = TensorDesc(dtype_of(self._impl), list(self._impl.shape))
        return self._desc

    @property
    def cls_type(self) -> type[BaseData]:
        """The class Tensor."""
        return Tensor

    def numpy(self, copy: bool = False) -> Array:
        """The tensor as an array.

        Args:
            copy: Whether to copy. Without it the array is a view that can be written to; on the side of the caller a
                tensor that lies in a message is copied for that, once. In a function the view is read-only: other nodes
                may read the same message.

        Raises:
            DfException: a tensor of strings without `copy`.
        """
        if self._impl.dtype.kind in "USO":
            if not copy:
                raise DfException("a tensor of strings has no view: use numpy(copy=True)")
            return _texts(self._impl)
        if copy:
            return self._impl.copy()
        if not self._is_udf and not self._impl.flags.writeable:
            self._impl, self._flow_msg = self._impl.copy(), None
        return self._impl

    def get_shape(self) -> list[int]:
        """Dimensions; inside functions only, as the other getters.

        Raises:
            DfException: outside a function.
        """
        return list(self._of_function("get_shape").shape)

    def get_data_type(self) -> type[np.generic] | None:
        """Element type as numpy has it.

        Raises:
            DfException: outside a function.
        """
        dtype = dtype_of(self._of_function("get_data_type"))
        return None if dtype is DT_BF16 else _dflow_dtype_to_np_dtype[dtype]

    def get_data_size(self) -> int:
        """Bytes of the data.

        Raises:
            DfException: outside a function.
        """
        return self._of_function("get_data_size").nbytes

    def get_element_cnt(self) -> int:
        """Number of elements.

        Raises:
            DfException: outside a function.
        """
        return self._of_function("get_element_cnt").size

    def reshape(self, shape: Sequence[int]) -> int:
        """Give the tensor another shape, in place.

        Args:
            shape: The shape, at most 32 dimensions.

        Returns:
            0, or 164000 if the number of elements would differ.

        Raises:
            DfException: outside a function.
        """
        array = self._of_function("reshape")
        if len(shape) > MAX_RANK or any(dim < 0 for dim in shape):
            return codes.FUNC_ERR_PARAM_INVALID
        try:
            self._impl = array.reshape(tuple(shape))
        except ValueError:
            return codes.FUNC_ERR_PARAM_INVALID
        return codes.FUNC_SUCCESS

    def _of_function(self, what: str) -> Array:
        if not self._is_udf:
            raise DfException(f"{what} is for tensors inside a function")
        return self._impl

    def __str__(self) -> str:
        return f"Tensor({self._impl}, tensor_desc={self._tensor_desc})"

    __repr__ = __str__

    def __reduce__(self) -> tuple[object, tuple[Array, bool]]:
        return _rebuilt, (self._impl, self._is_udf)


def array_of(data: object) -> Array:
    """Anything as an array.

    Raises:
        DfException: a message without a tensor.
    """
    if isinstance(data, np.ndarray):
        return data
    native = getattr(data, "native_array", None)  # the classes of the native modules
    if native is not None:
        return cast(Array, native())
    return np.array(data)


def checked_array(array: Array, desc: TensorDesc | None) -> Array:
    """An array that a tensor can be made of: the given one, converted only if its element type differs.

    Args:
        array: The array.
        desc: What it must be, or None for anything.

    Raises:
        DfException, ValueError: as for Tensor.
    """
    if desc is not None:
        array = _described(array, desc)
    elif array.dtype not in _np_dtype_to_dflow_dtype and array.dtype.kind not in "US":
        raise DfException(f"the data type {array.dtype} is not supported", codes.DATATYPE_INVALID)
    if not array.flags.c_contiguous:
        raise DfException("the array does not lie in one piece: give numpy.ascontiguousarray(array)")
    return array


def _described(array: Array, desc: TensorDesc) -> Array:
    if list(array.shape) != desc._shape:
        raise DfException(f"shape {list(array.shape)} differs from {desc}", codes.SHAPE_INVALID)
    wanted = _dflow_dtype_to_np_dtype.get(desc._dtype)
    if wanted is None:
        raise DfException(f"tensors of {desc._dtype} cannot be made of arrays", codes.DATATYPE_INVALID)
    if desc._dtype is DT_STRING and array.dtype.kind in "US":
        return array
    if array.dtype != wanted:
        log.warning("an array of %s is converted to %s", array.dtype, desc._dtype)
        return np.asarray(array, wanted)
    return array


def _texts(array: Array) -> Array:
    try:
        return array.astype(np.str_) if array.dtype.kind != "O" else np.array(array, dtype=np.str_)
    except UnicodeDecodeError as error:
        raise DfException(f"the tensor holds bytes that are no text: {error}") from error


def _rebuilt(array: Array, in_function: bool) -> Tensor:
    return Tensor.over(array, in_function=in_function)
