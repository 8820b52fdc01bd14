"""Objects of scripts as the core's values, and back.

A Tensor goes as an array, None as a message without data, an object of a registered class as bytes of its own type
(the core knows them by the register), and everything else is pickled. An array that is not in a Tensor is an object
like any other: it is boxed, so that it arrives as the array it was and not as a Tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dataflow import codes
from dataflow.tensor import Tensor
from dataflow.utils.errors import DfException
from dataflow.utils.msg_type_register import get_msg_type_register
from dflow_core.message import FlowMsg, MsgType, block_of, decode
from dflow_core.types import Array

_BOXED = (np.ndarray, np.generic)


@dataclass(frozen=True, slots=True)
class Boxed:
    """An object the core would take for something else.

    Args:
        value: The object.
    """

    value: object


def to_core(value: object) -> object:
    """What the core sends for an object."""
    if type(value) is Tensor:
        return value._impl
    if value is None:
        return None
    if isinstance(value, Tensor) and get_msg_type_register().get_msg_type(type(value)) is None:
        return value._impl
    return Boxed(value) if isinstance(value, _BOXED) else value


def from_core(value: object) -> object:
    """The object of a value that came in a function."""
    if type(value) is np.ndarray:
        return Tensor.over(value, in_function=True)
    return value.value if isinstance(value, Boxed) else value


def object_of(msg: object) -> object:
    """What a message carries, as `fetch` gives it.

    Raises:
        DfException: 145000 for a type nobody registered.
    """
    found = getattr(msg, "core", msg)
    assert isinstance(found, FlowMsg), f"no message: {msg!r}"
    if found.body is None or found.is_null:
        return None
    msg_type = found.info.msg_type
    if msg_type == MsgType.TENSOR:
        return tensor_of(found)
    if msg_type == MsgType.PICKLED:
        value = decode(found)
        return value.value if isinstance(value, Boxed) else value
    deserialize = get_msg_type_register().get_deserialize_func(msg_type)
    if deserialize is None:
        raise DfException(f"message type {msg_type} is not registered", codes.PARAM_INVALID)
    return deserialize(memoryview(found.body))


def tensor_of(msg: FlowMsg) -> Tensor:
    """The tensor of a message."""
    array = decode(msg)
    assert isinstance(array, np.ndarray)
    return Tensor.over(array, msg)


def copied_when_fed(array: Array) -> Array:
    """The array, such that feeding it copies, so that the caller may fill it again.

    One from `alloc_tensor` would be handed over otherwise.
    """
    if array.base is None or not array.flags.writeable or block_of(array) is None:
        return array
    return np.asarray(memoryview(array)) if array.size else array


__all__ = ["Boxed", "copied_when_fed", "from_core", "object_of", "tensor_of", "to_core"]
