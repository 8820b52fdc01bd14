"""Labels of parts that are dealt out over instances and collected again (runtime-semantics.md section 12).

A message that becomes R x C parts is a matrix; each part has a row and a column. Its data label says which part it is,
so that joins pair it with the same part of another branch; its route label says which parts have to meet in one
instance of the next node: none, those of a row, or those of a column.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

MAX_PARTS = 65536


class AffinityPolicy(enum.Enum):
    """Which parts of a message meet in one instance of the next node."""

    NO_AFFINITY = 0
    ROW_AFFINITY = 1
    COL_AFFINITY = 2


@dataclass(frozen=True, slots=True)
class Labels:
    """Labels of one part."""

    data: int
    route: int


class BalanceConfig:
    """Where the messages that are sent lie in a matrix of parts.

    Args:
        row_num, col_num: Size of the matrix; at most 65536 parts.
        affinity_policy: Which parts meet in one instance of the next node.
    """

    def __init__(
        self, row_num: int, col_num: int, affinity_policy: AffinityPolicy = AffinityPolicy.NO_AFFINITY
    ) -> None:
        self.row_num = row_num
        self.col_num = col_num
        self.affinity_policy = affinity_policy
        self._positions: tuple[tuple[int, int], ...] = ()

    @property
    def positions(self) -> tuple[tuple[int, int], ...]:
        """Row and column of each message."""
        return self._positions

    def set_data_pos(self, positions: Sequence[tuple[int, int]]) -> None:
        """Say where the messages lie: (row, column) from 0, one for each message."""
        self._positions = tuple((row, column) for row, column in positions)

    def fault(self, balance: str, count: int) -> str | None:
        """Why so many messages cannot be sent this way, or None if they can.

        Args:
            balance: What the node is: `scatter`, `gather` or "".
            count: How many messages there are.
        """
        if self.affinity_policy not in tuple(AffinityPolicy):
            return f"expected an AffinityPolicy, got {self.affinity_policy!r}"
        if self.row_num <= 0 or self.col_num <= 0 or self.row_num * self.col_num > MAX_PARTS:
            return f"expected a matrix of 1 to {MAX_PARTS} parts, got {self.row_num} x {self.col_num}"
        for row, column in self._positions:
            if not (0 <= row < self.row_num and 0 <= column < self.col_num):
                return f"position ({row}, {column}) is outside of {self.row_num} x {self.col_num}"
        no_affinity = self.affinity_policy is AffinityPolicy.NO_AFFINITY
        if balance == "scatter" and not no_affinity:
            return "a scattering node has no affinity"
        if balance == "gather" and no_affinity:
            return "a gathering node needs row or column affinity"
        if not balance:
            return "the node is neither set_balance_scatter() nor set_balance_gather()"
        if len(self._positions) != count:
            return f"expected {count} positions, one for each message, got {len(self._positions)}"
        return None

    def labels(self) -> list[Labels]:
        """The labels of each message."""
        made = []
        for row, column in self._positions:
            data = row * self.col_num + column + 1
            route = {AffinityPolicy.ROW_AFFINITY: row + 1, AffinityPolicy.COL_AFFINITY: column + 1}
            made.append(Labels(data, route.get(self.affinity_policy, data)))
        return made
