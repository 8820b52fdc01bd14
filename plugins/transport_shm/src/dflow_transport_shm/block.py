"""Blocks of a shared region as Python sees them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from dflow_core.message import Block, Bytes

from dflow_transport_shm.bindings import Handle, block_info, fail, release, retain

# What numpy needs to lay an array over a block: once to read, once to write.
View: TypeAlias = "tuple[dict[str, object], dict[str, object]]"

_MOST_VIEWS = 4096
_GONE = -1


def _interface(address: int, size: int, readonly: bool) -> dict[str, object]:
    return {"shape": (size,), "typestr": "|u1", "data": (address, readonly), "version": 3}


class Views(dict[int, View]):
    """Views by block key. A key stands for one address and size for ever, so they are kept."""

    def __init__(self, handle: Handle) -> None:
        super().__init__()
        self._handle = handle

    def __missing__(self, key: int) -> View:
        address, size = block_info(self._handle, key)
        if len(self) >= _MOST_VIEWS:
            self.clear()
        view = (_interface(address, size, True), _interface(address, size, False))
        self[key] = view
        return view


class ShmBlock(Block):
    """One reference of this member to a block; `key` is -1 once it is gone.

    Args:
        handle: The member.
        key: Name of the block.
        view: How to lay arrays over it.
        writable: Whether plain `numpy.asarray` may write; `array` says for itself.
    """

    __slots__ = ("__array_interface__", "_view", "handle", "key")

    def __init__(self, handle: Handle, key: int, view: View, writable: bool = False) -> None:
        self.handle = handle
        self.key = key
        self._view = view
        self.__array_interface__ = view[writable]

    @property
    def nbytes(self) -> int:
        shape = self._view[0]["shape"]
        assert isinstance(shape, tuple)
        size: int = shape[0]
        return size

    def array(self, *, writable: bool = False) -> Bytes:
        if self.key < 0:
            fail_gone()
        # numpy reads the attribute of this very object, which so becomes the last base; hence no second object.
        self.__array_interface__ = self._view[writable]
        return np.asarray(self)

    def retain(self) -> ShmBlock:
        code = retain(self.handle, self.key)
        if code < 0:
            fail(code)
        return ShmBlock(self.handle, self.key, self._view)

    def release(self) -> None:
        key, self.key = self.key, _GONE
        if key >= 0:
            release(self.handle, key)

    def __del__(self) -> None:
        if self.key >= 0:
            release(self.handle, self.key)

    def __repr__(self) -> str:
        return f"<ShmBlock {self.nbytes} bytes{'' if self.key >= 0 else ', gone'}>"


def fail_gone() -> None:
    """Raise what using a block means that was sent or released."""
    from dflow_core.errors import UsageError

    raise UsageError("the block was sent or released already", hint="keep a reference with retain() before sending")
