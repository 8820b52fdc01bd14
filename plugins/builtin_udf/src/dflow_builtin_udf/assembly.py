"""Builds the array of a batch, and the list of what is in it.

The members of a batch message say which rows are whose, in order. Rows of items that ended with an earlier batch
(sliding windows) are covered by a filler: a member under the batch's own head, flagged SKIP. Padding is behind all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dflow_builtin_udf.instructions import Emit
from dflow_builtin_udf.items import Item
from dflow_core.message import DataFlag, Member, MsgInfo
from dflow_core.spi import RunContext
from dflow_core.types import Array, DataType, Tensor


def stack(context: RunContext, arrays: Sequence[Array], size: int) -> Array:
    """Arrays of one rank and dtype along a new first dimension, smaller ones and missing ones filled up with zeros.

    Args:
        context: Gives the memory.
        arrays: At least one.
        size: Rows to fill up to.
    """
    shapes = {array.shape for array in arrays}
    rows = max(size, len(arrays))
    shape = (rows, *map(max, *shapes)) if len(shapes) > 1 else (rows, *arrays[0].shape)
    if _is_text(arrays):
        out: Array = np.zeros(shape, np.result_type(*arrays))
    else:
        out = context.alloc(shape, arrays[0].dtype, len(arrays))
    if len(shapes) == 1:
        np.stack(arrays, out=out[: len(arrays)])
    else:
        out[...] = 0
        for row, array in zip(out, arrays):
            row[tuple(map(slice, array.shape))] = array
    out[len(arrays) :] = 0 if not _is_text(arrays) else out.dtype.type()
    return out


def join(context: RunContext, arrays: Sequence[Array], dim: int) -> Array:
    """Arrays of one dtype and equal shapes, but for one dimension, along that dimension."""
    if _is_text(arrays):
        return np.concatenate(arrays, axis=dim)
    shape = list(arrays[0].shape)
    shape[dim] = sum(array.shape[dim] for array in arrays)
    out = context.alloc(shape, arrays[0].dtype, len(arrays))
    np.concatenate(arrays, axis=dim, out=out)
    return out


def tensors(items: Sequence[Item], port: int) -> list[Array]:
    """The tensors of the items on one input."""
    arrays = [item.msgs[port].get_tensor() for item in items]
    return [array for array in arrays if array is not None]


def as_sent(array: Array, item: Item, port: int) -> Array | Tensor:
    """The array under the element type its parts had: bfloat16 is more than numpy may know."""
    dtype = item.specs[port].dtype
    return Tensor(array, dtype) if dtype is DataType.BF16 and array.dtype == np.uint16 else array


def members(batch: Emit, head: MsgInfo, port: int, dim: int) -> list[Member]:
    """What is in a batch.

    Args:
        batch: The batch.
        head: The head it is sent under.
        port: Input whose messages it was made of.
        dim: Dimension they were joined along, or -1 where they were stacked.
    """
    found = []
    if batch.old:
        found.append(Member(replace(head, token=0, data_flag=head.data_flag | DataFlag.SKIP), batch.old))
    for item in batch.items[batch.old :]:
        own = head if item is batch.head else item.info
        found += _members_of_item(item, own, port, dim)
    if not any(item is batch.head for item in batch.items):
        found.append(Member(replace(head, data_flag=head.data_flag | DataFlag.NULL), 0))
    return found


def _members_of_item(item: Item, own: MsgInfo, port: int, dim: int) -> list[Member]:
    """Normally the item itself; one that was a batch already stands for its members too."""
    shape = item.specs[port].shape or ()
    rows = shape[dim] if dim >= 0 else 1
    inner = item.msgs[port].aux.members
    if dim >= 0 and sum(member.rows for member in inner) == rows:
        return [Member(own, m.rows) if m.info.key == item.info.key else m for m in inner]
    others = [Member(m.info, 0) for m in inner if m.info.key != item.info.key]
    return [*others, Member(own, rows)]


def _is_text(arrays: Sequence[Array]) -> bool:
    return arrays[0].dtype.kind in "USO"
