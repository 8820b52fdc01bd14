"""Blocks of a shared region as Python sees them: the types are those of the extension module, told here what they
need to know of dflow."""

from __future__ import annotations

from typing import NoReturn

from dflow_core.errors import UsageError
from dflow_core.message import Block, copy_like, peek_plain
from dflow_core.types import DataType, numpy_dtype_of
from dflow_transport_shm import bindings as native
from dflow_transport_shm._fast import Member, ShmBlock, bind

__all__ = ["Member", "ShmBlock"]

# Needs a library that may be missing, or has no fixed size: seldom enough to go through Python.
_UNUSUAL = (DataType.BF16, DataType.STRING, DataType.UNDEFINED)


def _gone(code: int) -> NoReturn:
    if code:
        native.fail(code)
    raise UsageError("the block was sent or released already", hint="keep a reference with retain() before sending")


bind(
    native.calls(),
    _gone,
    peek_plain,
    copy_like,
    {int(kind): numpy_dtype_of(kind) for kind in DataType if kind not in _UNUSUAL},
)
Block.register(ShmBlock)
