"""Messages of cancelled transactions pass by the functions as skips: the rules of `dflow_core/executor/unwanted.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.executor.cancel_board import CancelBoard, no_words
from dflow_core.message import Aux, DataFlag, FlowMsg, Member, MsgInfo, encode, root_token
from dflow_core.testing.waiting import wait_until

SKIPPED = DataFlag.SKIP | DataFlag.NULL
BIG = np.zeros(4096, np.float32)


@pytest.fixture
def words():
    """A board that the rigs of the test read."""
    return no_words()


def check_skip(out: FlowMsg, info: MsgInfo) -> None:
    assert out.info.data_flag == SKIPPED
    assert (out.info.key, out.info.token) == (info.key, info.token)


@pytest.mark.parametrize("function", ["pass", "behave", ("forward", (0,), (0,), True)], ids=str)
def test_a_message_that_nobody_wants_passes_by_the_function(make_rig: Callable, words, function) -> None:
    board = CancelBoard(words)
    rig = make_rig(function, options={"cancelled": words.ctypes.data}).start()
    for trans_id in (1, 2, 3):
        board.add(10 + trans_id)
        info = rig.feed(10 + trans_id, np.zeros(1, np.int32), data_label=trans_id)
        check_skip(rig.get(), info)
        rig.feed(trans_id, np.zeros(1, np.int32))
        assert rig.get().info.data_flag == 0
    board.remove(12)
    rig.feed(12, np.zeros(1, np.int32))
    assert rig.get().info.data_flag == 0, "the id may be fed again"
    if isinstance(function, str):
        assert rig.stats().calls == 4


def test_a_batch_goes_on_as_long_as_one_of_its_members_is_wanted(make_rig: Callable, words) -> None:
    board = CancelBoard(words)
    rig = make_rig("pass", options={"cancelled": words.ctypes.data}).start()
    heads = [MsgInfo(trans_id=i, token=root_token(i)) for i in (1, 2, 3)]
    batch = encode(np.zeros((3, 2)), heads[0], aux=Aux(tuple(map(Member, heads))))
    for trans_id in (1, 2):
        board.add(trans_id)
    rig.put(batch)
    assert rig.get().info.data_flag == 0
    board.add(3)
    rig.put(batch)
    out = rig.get()
    check_skip(out, heads[0])
    assert [member.info.trans_id for member in out.aux.members] == [1, 2, 3]


def test_a_join_lets_go_of_a_part_and_ends_when_the_other_comes(make_rig: Callable, words) -> None:
    """The memory is small: what waits must be freed before there is room for the next."""
    board = CancelBoard(words)
    wanted, head = 1024 + BIG.nbytes, 256
    limit = head + wanted + 2048
    rig = make_rig(("add", (0, 1)), inputs=2, limit=limit, options={"cancelled": words.ctypes.data}).start()
    table = rig.heap.table
    for trans_id in (1, 2):
        info = rig.feed(trans_id, BIG)
        wait_until(lambda: rig.stats().pending == 1)
        assert table.allocate(table.context, wanted, 0) < 0
        board.add(trans_id)
        room = table.allocate(table.context, wanted, 20 * 10**9)
        assert room >= 0, "what waited has been freed"
        table.release(table.context, room)
        assert rig.is_silent()
        rig.feed(trans_id, np.zeros(1, np.float32), port=1)
        check_skip(rig.get(), info)
    for port in (0, 1):
        rig.feed(3, np.ones(1, np.float32), port=port)
    assert rig.get().get_tensor() == 2
    assert rig.stats().calls == 1


def test_a_wait_for_a_model_ends_when_nobody_wants_the_answer(make_rig: Callable, words) -> None:
    board = CancelBoard(words)
    rig = make_rig("invoke", invoked="model", options={"cancelled": words.ctypes.data}).start()
    rig.feed(7, np.zeros(1))
    assert rig.heap.get(rig.fed).info.trans_id == 7
    board.add(7)
    assert rig.get().get_tensor().shape == (), "the function tells the line of the call that failed"
    rig.feed(8, np.zeros(1))
    rig.heap.put(rig.fetched, encode(np.ones(1), rig.heap.get(rig.fed).info))
    assert rig.get().info.key == (8, 0)
