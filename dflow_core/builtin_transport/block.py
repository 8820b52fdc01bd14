"""Blocks of the in-process transport."""

from __future__ import annotations

import numpy as np

from dflow_core.builtin_transport.region import NOTHING, Cell, Owner, Region
from dflow_core.errors import UsageError
from dflow_core.message import Block, Bytes


class InprocBlock(Block):
    """One member's reference to a cell."""

    __slots__ = ("_buffer", "_cell", "_owner", "_region", "_size")

    def __init__(self, region: Region, cell: Cell, owner: Owner) -> None:
        self._region, self._owner, self._size = region, owner, cell.size
        self._buffer = cell.buffer
        self._cell: Cell | None = cell

    def belongs_to(self, owner: Owner) -> bool:
        """Whether it is a reference of that member."""
        return self._owner is owner

    @property
    def nbytes(self) -> int:
        return self._size

    @property
    def __array_interface__(self) -> dict[str, object]:
        return self._buffer[: self._size].__array_interface__

    def array(self, *, writable: bool = False) -> Bytes:
        self._alive()
        view = np.asarray(self)
        if not writable:
            view.flags.writeable = False
        return view

    def retain(self) -> Block:
        cell = self._alive()
        with self._region.lock():
            self._region.hold(cell, self._owner)
        return InprocBlock(self._region, cell, self._owner)

    def release(self) -> None:
        cell, self._cell = self._cell, None
        if cell is not None:
            self._region.give_back(cell, self._owner)

    def hand_over(self, region: Region) -> tuple[Cell, Owner]:
        """The cell and its holder, for a queue of the same region."""
        cell = self._alive()
        if region is not self._region:
            raise UsageError("the block belongs to another memory group", hint="copy it into a block of this one")
        return cell, self._owner

    def spend(self) -> None:
        """The reference belongs to somebody else now."""
        self._cell = None

    def _alive(self) -> Cell:
        if self._cell is None:
            raise UsageError("the block was released, or sent away by put; retain() it first to keep a reference")
        return self._cell

    def __del__(self) -> None:
        if getattr(self, "_cell", None) is not None:
            self._buffer = NOTHING
            self.release()
