"""How several messages are dealt out over the instances of the next node."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from dataflow.flow_func import flowfunc_wrapper as native

__all__ = ["AffinityPolicy", "BalanceConfig"]


class AffinityPolicy(enum.Enum):
    """Which parts of the matrix go to one instance."""

    NO_AFFINITY = native.AffinityPolicy.NO_AFFINITY
    ROW_AFFINITY = native.AffinityPolicy.ROW_AFFINITY
    COL_AFFINITY = native.AffinityPolicy.COL_AFFINITY

    @property
    def inner_type(self) -> native.AffinityPolicy:
        """The member of the native enumeration."""
        return self.value


class BalanceConfig:
    """A matrix in which each message of an output has its place.

    Args:
        row_num, col_num: Size of the matrix.
        affinity_policy: What goes to one instance.
    """

    def __init__(
        self, row_num: int, col_num: int, affinity_policy: AffinityPolicy = AffinityPolicy.NO_AFFINITY
    ) -> None:
        self._inner = native.BalanceConfig()
        self._inner.set_balance_weight(row_num, col_num)
        self._inner.set_affinity_policy(affinity_policy.inner_type)

    def set_data_pos(self, data_pos: Sequence[tuple[int, int]]) -> None:
        """The (row, column) of each message."""
        self._inner.set_data_pos(data_pos)

    def get_inner_config(self) -> native.BalanceConfig:
        """The native object."""
        return self._inner
