"""Items that nobody wants any more leave a window: each ends once, and the batch is made of the rest."""

from __future__ import annotations

import random

import numpy as np

from dflow_builtin_udf.count_window import CountWindow
from dflow_builtin_udf.instructions import Drop, Emit, EndParts
from dflow_builtin_udf.items import Item
from dflow_builtin_udf.time_window import TimeWindow
from dflow_core.message import MsgInfo, encode, root_token


def item(trans_id: int) -> Item:
    info = MsgInfo(trans_id=trans_id, token=root_token(trans_id), start_time=trans_id, end_time=trans_id + 1)
    return Item.of([encode(np.array([trans_id]), info)])


def test_a_count_batch_is_filled_with_what_is_wanted():
    window = CountWindow(2)
    assert list(window.offer(item(1), 0.0)) == []
    (dropped,) = window.let_go(lambda one: one.info.trans_id == 1)
    assert isinstance(dropped, Drop) and [one.info.trans_id for one in dropped.items] == [1]
    assert list(window.offer(item(2), 0.0)) == []
    (batch,) = window.offer(item(3), 0.0)
    assert isinstance(batch, Emit) and [one.info.trans_id for one in batch.items] == [2, 3]
    assert list(window.let_go(lambda one: True)) == []


def test_a_time_batch_forgets_what_is_not_wanted():
    window = TimeWindow(3, timeout=5.0)
    assert list(window.offer(item(1), 0.0)) == []
    (dropped,) = window.let_go(lambda one: True)
    assert isinstance(dropped, Drop) and window.deadline is None
    assert list(window.offer(item(2), 1.0)) == [] and list(window.offer(item(3), 1.0)) == []
    (batch,) = window.offer(item(4), 1.0)
    assert isinstance(batch, Emit) and [one.info.trans_id for one in batch.items] == [2, 3, 4]


def test_sliding_windows_end_every_item_once_whatever_leaves_when():
    dice = random.Random(11)
    for _ in range(500):
        size = dice.randrange(1, 5)
        window = CountWindow(size, dice.randrange(size + 1), dice.choice([0.0, 1.0]))
        ended: list[int] = []
        parts: set[int] = set()

        def note(instructions: object, ended: list[int] = ended, parts: set[int] = parts) -> None:
            for one in instructions:  # type: ignore[attr-defined]
                if isinstance(one, Drop):
                    ended.extend(i.info.trans_id for i in one.items)
                elif isinstance(one, Emit):
                    ended.extend(i.info.trans_id for i in one.items[one.old :])
                    parts |= {one.head.info.trans_id} if one.is_part else set()
                elif isinstance(one, EndParts):
                    parts.discard(one.item.info.trans_id)

        for step in range(1, 25):
            note(window.offer(item(step), float(step)))
            if dice.random() < 0.3:
                gone = {dice.randrange(1, step + 1) for _ in range(3)}
                note(window.let_go(lambda one, gone=gone: one.info.trans_id in gone))  # type: ignore[misc]
            if dice.random() < 0.3:
                note(window.expire(float(step)))
        note(window.flush())
        assert sorted(ended) == list(range(1, 25))
        assert not parts, "every stream of windows is closed"
