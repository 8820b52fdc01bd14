"""What can be put into a batch."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_builtin_udf.items import Item, unfit
from dflow_core.message import FlowMsg, MsgInfo, encode
from dflow_core.types import DataType, TensorSpec


def message(value: object) -> FlowMsg:
    return encode(value, MsgInfo(1))


def test_item_knows_its_tensors() -> None:
    item = Item.of([message(np.zeros((2, 3), np.int8)), message(np.zeros(4))])
    assert item.specs == (TensorSpec(DataType.INT8, (2, 3)), TensorSpec(DataType.DOUBLE, (4,)))
    assert (item.fault, item.is_null) == ("", False)
    assert item.nbytes == 2 * 1024 + 6 + 32


def test_torn_descriptor_is_a_fault() -> None:
    msg = message(np.zeros(2))
    assert msg.block is not None
    msg.block.array(writable=True)[256 + 24] = 99
    assert "rank 99" in Item.of([FlowMsg.from_block(msg.block)]).fault


def test_null_messages_make_a_null_item() -> None:
    item = Item.of([message(None), message(None)])
    assert item.is_null and not item.fault


@pytest.mark.parametrize(
    ("shape", "free_dim", "any_size", "fits"),
    [
        ((2, 3), None, False, True), ((2, 4), None, False, False), ((2, 4), 1, False, True), ((3, 3), 1, False, False),
        ((3, 4), None, True, True), ((2, 3, 1), None, True, False), ((2,), 1, False, False),
    ],
)
def test_shapes_that_fit(shape: tuple[int, ...], free_dim: int | None, any_size: bool, fits: bool) -> None:
    first, new = Item.of([message(np.zeros((2, 3)))]), Item.of([message(np.zeros(shape))])
    assert (unfit(first, new, free_dim, any_size) == "") is fits


def test_numbers_of_tensors_must_agree() -> None:
    one = message(np.zeros(2))
    assert "expected 1 tensors" in unfit(Item.of([one]), Item.of([one, one]))
