"""Tensor bodies: the array behind a RuntimeTensorDesc, and how string arrays are packed.

Strings keep numpy's fixed-width layout byte for byte where the array has one (kinds U and S); an object array of
`str` and `bytes` is packed as lengths, kinds and bytes. The descriptor's `sub_format` tells which.
"""

from __future__ import annotations

import math
import struct

import numpy as np

from dflow_core.errors import TensorError
from dflow_core.message.info import Bytes
from dflow_core.message.tensor_desc import DESC_SIZE, TensorDesc
from dflow_core.types import Array, DataType, numpy_dtype_of

_STR_U, _STR_S, _STR_OBJECT = 1, 2, 3


def read_tensor(body: Bytes) -> Array:
    """The tensor of a message body, as a read-only array over it (strings are copied out).

    Raises:
        TensorError: if the body is shorter than its descriptor says.
    """
    desc = TensorDesc.unpack_from(body, 0)
    if desc.dtype is DataType.STRING:
        return _read_strings(desc, body[DESC_SIZE:])
    dtype = numpy_dtype_of(desc.dtype)
    size = math.prod(desc.shape) * dtype.itemsize
    if body.nbytes < DESC_SIZE + size:
        length = body.nbytes - DESC_SIZE
        raise TensorError(f"payload of {length} bytes is too short for {desc.dtype.name}{list(desc.shape)}")
    return np.ndarray(desc.shape, dtype, body, DESC_SIZE)


def pack_strings(array: Array) -> Bytes:
    """The body of a string tensor.

    Args:
        array: Kind U or S, or an object array of `str` and `bytes`.
    """
    if array.dtype.kind in "US":
        sub_format = _STR_U if array.dtype.kind == "U" else _STR_S
        native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        packed = struct.pack("<Q", native.dtype.itemsize) + native.tobytes()
    else:
        sub_format = _STR_OBJECT
        items = array.ravel().tolist()
        text = np.fromiter((isinstance(item, str) for item in items), np.bool_, len(items))
        raw = [item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item for item in items]
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        packed = lengths.tobytes() + text.tobytes() + b"".join(raw)
    body = np.empty(DESC_SIZE + len(packed), np.uint8)
    TensorDesc(DataType.STRING, array.shape, len(packed), sub_format).pack_into(body, 0)
    body[DESC_SIZE:] = np.frombuffer(packed, np.uint8)
    return body


def _read_strings(desc: TensorDesc, data: Bytes) -> Array:
    if desc.sub_format in (_STR_U, _STR_S):
        (itemsize,) = struct.unpack_from("<Q", data)
        dtype = np.dtype(f"U{itemsize // 4}" if desc.sub_format == _STR_U else f"S{itemsize}")
        array = data[8 : desc.data_size].copy() if itemsize else np.empty(0, np.uint8)
        result = array.view(dtype).reshape(desc.shape) if itemsize else np.zeros(desc.shape, dtype)
    else:
        count = math.prod(desc.shape)
        lengths = data[: 8 * count].view(np.int64) if count else np.empty(0, np.int64)
        text = data[8 * count : 9 * count].view(np.bool_)
        raw = data[9 * count :].tobytes()
        ends = np.cumsum(lengths).tolist()
        starts = [0, *ends[:-1]] if count else []
        items = [raw[a:b] for a, b in zip(starts, ends)]
        result = np.empty(count, object)
        result[:] = [i.decode("utf-8", "surrogatepass") if t else i for i, t in zip(items, text.tolist())]
        result = result.reshape(desc.shape)
    result.flags.writeable = False
    return result
