from __future__ import annotations

import pytest

from dflow_core.udf import AffinityPolicy, BalanceConfig

ROW, COL, NO = AffinityPolicy.ROW_AFFINITY, AffinityPolicy.COL_AFFINITY, AffinityPolicy.NO_AFFINITY


def config(rows: int, cols: int, policy: object, *positions: tuple[int, int]) -> BalanceConfig:
    made = BalanceConfig(rows, cols, policy)
    made.set_data_pos(positions)
    return made


@pytest.mark.parametrize(("policy", "routes"), [(NO, [1, 3, 5, 6]), (ROW, [1, 1, 2, 2]), (COL, [1, 3, 2, 3])])
def test_labels_count_the_part_and_what_has_to_meet(policy, routes):
    labels = config(2, 3, policy, (0, 0), (0, 2), (1, 1), (1, 2)).labels()
    assert [label.data for label in labels] == [1, 3, 5, 6]
    assert [label.route for label in labels] == routes


@pytest.mark.parametrize(
    ("balance", "rows", "cols", "policy", "positions", "told"),
    [
        ("scatter", 0, 1, NO, [(0, 0)], "a matrix of 1 to 65536"),
        ("scatter", 256, 257, NO, [(0, 0)], "got 256 x 257"),
        ("scatter", 2, 2, NO, [(2, 0)], "outside of 2 x 2"),
        ("scatter", 2, 2, NO, [(0, -1)], "outside of 2 x 2"),
        ("scatter", 2, 2, ROW, [(0, 0)], "no affinity"),
        ("gather", 2, 2, NO, [(0, 0)], "needs row or column"),
        ("", 2, 2, NO, [(0, 0)], "neither"),
        ("scatter", 2, 2, NO, [], "expected 1 positions"),
        ("scatter", 2, 2, 1, [(0, 0)], "AffinityPolicy"),
        ("scatter", 2, 2, NO, [(1, 1)], None),
        ("gather", 2, 2, COL, [(1, 1)], None),
    ],
)
def test_rules_of_the_matrix(balance, rows, cols, policy, positions, told):
    fault = config(rows, cols, policy, *positions).fault(balance, 1)
    assert fault is None if told is None else told in fault
