"""Messages of cancelled transactions pass by the functions as skips: as in `dflow_core/executor/node/unwanted.py`."""

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


TWINS = [
    # What happens: `N` and `1:N` feed an input, `cancel N`, `error 1:N` and `skip 1:N`; what comes out, as in
    # tests/unit/executor/test_stream_context.py, whose table this is.
    ("both halves are given, or none", "cancel 1; 0:1; 1:1; 0:2; 1:2", "1- 2=202"),
    ("none where the first was lost and the other comes all the same", "error 1:1; 0:1; 0:2; 1:2", "1! 2=202"),
    ("one that has a half is told", "0:1; cancel 1; out; 1:1; 0:2; 1:2", "1- 2=202"),
    ("also if the other never comes", "0:1; cancel 1; out; 0:2; 1:2", "1- 2=202"),
    ("and of one that failed", "0:1; error 1:1; 0:2; 1:2", "1! 2=202"),
    ("not of what has its answer", "0:1; 1:1; out; cancel 1; 0:2; 1:2", "1=101 2=202"),
    ("where all branches were not taken it ends", "skip 1:1; skip 0:1; 0:2; 1:2", "1- 2=202"),
    ("a branch not taken, the other cancelled", "skip 1:1; cancel 1; 0:1; 0:2; 1:2", "1- 2=202"),
    ("several, one after the other", "0:1; cancel 1; out; 0:2; cancel 2; out; 0:3; 1:3", "1- 2- 3=303"),
]


@pytest.mark.parametrize("function", ["twins", "siblings"])
@pytest.mark.parametrize(("rule", "steps", "expected"), TWINS, ids=[rule for rule, *_ in TWINS])
def test_halves_of_two_transactions_are_never_paired(
    make_rig: Callable, words, function: str, rule: str, steps: str, expected: str
) -> None:
    board = CancelBoard(words)
    rig = make_rig((function, (0, 1), (0,), True), inputs=2, options={"cancelled": words.ctypes.data}).start()
    table, came = rig.heap.table, []

    def one() -> None:
        """The next thing that comes out."""
        out = rig.get()
        assert out.info.token == root_token(out.info.trans_id)
        flag = out.info.data_flag
        sign = "!" if flag & DataFlag.ERROR else "-" if flag & DataFlag.SKIP else f"={int(out.get_tensor()[0])}"
        came.append(f"{out.info.trans_id}{sign}")

    for step in steps.split("; "):
        word, _, where = step.rpartition(" ")
        port, _, number = where.rpartition(":")
        if step == "out":
            one()
        elif word == "cancel":
            wait_until(lambda: table.level(table.context, rig.ins[0]) == 0)
            board.add(int(number))
        elif word:
            flag = DataFlag.ERROR if word == "error" else DataFlag.SKIP
            info = MsgInfo(int(number), token=root_token(int(number)), data_flag=flag | DataFlag.NULL)
            rig.put(FlowMsg(info), int(port))
        else:
            rig.feed(int(number), np.array([int(number)], np.int64), port=int(port))
    while len(came) < len(expected.split()):
        one()
    assert sorted(came) == expected.split(), rule
    rig.end()
    assert rig.is_silent(), "each has ended once"


def test_a_running_function_can_ask_whether_its_message_is_wanted_still(make_rig: Callable, words) -> None:
    board = CancelBoard(words)
    rig = make_rig(("endless", (0,), (0,), True), options={"cancelled": words.ctypes.data}).start()
    rig.feed(5, np.zeros(1))
    wait_until(lambda: rig.stats().current_since != 0 and rig.heap.table.level(rig.heap.table.context, rig.ins[0]) == 0)
    assert rig.is_silent()
    board.add(5)
    assert int(rig.get().get_tensor()[0]) == 1
