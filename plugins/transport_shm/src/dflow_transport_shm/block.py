"""Blocks of a shared region as Python sees them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dflow_core.errors import UsageError
from dflow_core.message import Block, Bytes
from dflow_transport_shm.bindings import Handle, block_info, fail, release, retain

# What numpy needs to lay an array over a block, once to read and once to write; and the size.
View: TypeAlias = "tuple[dict[str, object], dict[str, object], int]"

_MOST_VIEWS = 4096
_GONE = -1


def _interface(address: int, size: int, readonly: bool) -> dict[str, object]:
    return {"shape": (size,), "typestr": "|u1", "data": (address, readonly), "version": 3}


class Membership:
    """What blocks and queues of one member share.

    Args:
        handle: The member, as the bindings know it.
    """

    __slots__ = ("handle", "views")

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        # A key stands for one address and size for ever, so what was computed for it stays true.
        self.views: dict[int, View] = {}

    def view(self, key: int) -> View:
        """How to lay arrays over a block of this member."""
        address, size = block_info(self.handle, key)
        if len(self.views) >= _MOST_VIEWS:
            self.views.clear()
        view = (_interface(address, size, True), _interface(address, size, False), size)
        self.views[key] = view
        return view


class ShmBlock(Block):
    """One reference of a member to a block.

    Made by `block = new_block(ShmBlock)` and setting `member` and `key`, on the spot where a message is made or
    taken: an `__init__` would be a fifth of the cost of a message. `key` is -1 once the reference is gone.
    """

    __slots__ = ("__array_interface__", "key", "member")

    key: int
    member: Membership

    @property
    def nbytes(self) -> int:
        return self._view()[2]

    def array(self, *, writable: bool = False) -> Bytes:
        try:
            view = self.member.views[self.key]
        except KeyError:
            view = self._view()
        # numpy reads the attribute of this very object, which so becomes the last base of the array.
        self.__array_interface__: dict[str, object] = view[1] if writable else view[0]
        return np.asarray(self)

    def _view(self) -> View:
        if self.key < 0:
            raise UsageError(
                "the block was sent or released already", hint="keep a reference with retain() before sending"
            )
        return self.member.views.get(self.key) or self.member.view(self.key)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[np.generic]:
        return np.array(self.array(), dtype) if copy else np.asarray(self.array(), dtype)

    def retain(self) -> ShmBlock:
        code = retain(self.member.handle, self.key)
        if code < 0:
            fail(code)
        block = new_block(ShmBlock)
        block.member = self.member
        block.key = self.key
        return block

    def release(self) -> None:
        key, self.key = self.key, _GONE
        if key >= 0:
            release(self.member.handle, key)

    def __del__(self) -> None:
        if self.key >= 0:
            release(self.member.handle, self.key)

    def __repr__(self) -> str:
        return f"<ShmBlock {self.nbytes} bytes>" if self.key >= 0 else "<ShmBlock gone>"


new_block = object.__new__
