"""Reference-counted memory that holds one message."""

from __future__ import annotations

import abc

import numpy as np

from dflow_core.message.info import Bytes
from dflow_core.types import Array


class Block(abc.ABC):
    """Memory that holds one message, shared with other holders.

    A block object stands for exactly one reference. `release` gives it back early; otherwise it goes when the object
    and every array made from it are gone. The block is the last `base` of every array made from it, so that
    `block_of` finds it and sending such an array needs no copy.
    """

    __slots__ = ("__weakref__",)

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Usable bytes, as asked for when it was allocated."""

    @abc.abstractmethod
    def array(self, *, writable: bool = False) -> Bytes:
        """The memory as uint8; the array keeps the reference alive."""

    @abc.abstractmethod
    def retain(self) -> Block:
        """Another reference to the same memory."""

    @abc.abstractmethod
    def release(self) -> None:
        """Give the reference back now. Arrays made from it must be gone. Idempotent."""


class HeapBlock(Block):
    """A block in this process's own memory: for tests, inline mode and values not sent yet."""

    __slots__ = ("_data",)

    def __init__(self, size: int) -> None:
        self._data: Bytes = np.empty(size, np.uint8)

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    @property
    def __array_interface__(self) -> dict[str, object]:
        return self._data.__array_interface__

    def array(self, *, writable: bool = False) -> Bytes:
        view = np.asarray(self)
        if not writable:
            view.flags.writeable = False
        return view

    def retain(self) -> Block:
        other = HeapBlock.__new__(HeapBlock)
        other._data = self._data
        return other

    def release(self) -> None:
        self._data = np.empty(0, np.uint8)


def block_of(array: Array) -> Block | None:
    """The block an array lies in, or None if it lies in ordinary memory."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, Block) else None
