"""Every call of the C++ API, from functions that check what they get (`udfs/every_call.cc`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dflow_core.message import Aux, DataFlag, Member, MsgInfo, encode, root_token
from dflow_core.types import DataType
from dflow_core.udf import AffinityPolicy, BalanceConfig
from dflow_pne_udf.native import seam

ATTRS = {
    "text": "hello", "number": -5, "real": 2.5, "flag": True, "type": DataType.BF16, "texts": ["a", "b"],
    "numbers": [1, 2], "reals": [0.5, 1.5], "flags": [True, False], "types": [DataType.UINT16], "lists": [[1, 2], [3]],
}
SCATTER, GATHER = 4, 8
# Policy, rows, columns, positions, messages.
BALANCE_TABLE = [
    (policy, *rest) for policy in (0, 1, 2) for rest in [
        (2, 3, [(0, 0), (0, 2), (1, 1), (1, 2)], 4), (2, 3, [(1, 2)], 1), (1, 65536, [(0, 0), (0, 65535)], 2),
        (0, 3, [(0, 0)], 1), (2, -1, [(0, 0)], 1), (256, 257, [(0, 0)], 1), (2, 2, [(2, 0)], 1), (2, 2, [(0, -1)], 1),
        (2, 2, [(0, 0)], 2), (2, 2, [], 1),
    ]
] + [(3, 2, 2, [(0, 0)], 1), (-1, 2, 2, [(0, 0)], 1)]


def feed(rig: object) -> None:
    """The message that the checks expect."""
    rig.feed(7, np.zeros(2), start_time=11, end_time=22, flags=3, user_data=b"abcdefgh")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["attributes", "parameters", "head", "tensors", "allocators", "outputs", "strings", "registration"]
)
def test_api(make_rig: Callable, name: str) -> None:
    rig = make_rig((name, (0,), (0, 1)), outputs=2, attrs=ATTRS, options={"flags": SCATTER}).start()
    feed(rig)
    assert int(rig.get().get_tensor()) == 0, f"a check in line {int(rig.get().get_tensor())} failed"


def test_a_function_is_registered_without_the_macro(make_rig: Callable) -> None:
    rig = make_rig("by_hand").start()
    rig.feed(7, np.arange(3))
    assert rig.get().get_tensor().tolist() == [0, 1, 2]


def test_too_many_lines_are_dropped_after_one_that_says_so(
    make_rig: Callable, capfd: pytest.CaptureFixture[str]
) -> None:
    """50 a second after the first 400, of either logger; time passes meanwhile."""
    rig = make_rig("logs").start()
    rig.feed(1, np.array([2000]))
    line = int(rig.get().get_tensor())
    assert line == 0, f"a check in line {line} failed"
    lines = [text for text in capfd.readouterr().err.splitlines() if "of many" in text or "too many" in text]
    assert 0 < sum("of many" in text for text in lines) < 2000, "of 4000"
    assert sum("too many" in text for text in lines) >= 2, "one for each"
    assert "below the level" not in "".join(lines)


def test_head_that_was_set_arrives(make_rig: Callable) -> None:
    rig = make_rig(("head", (0,), (0, 1)), outputs=2).start()
    feed(rig)
    info = rig.get(1).info
    assert (info.start_time, info.end_time, info.flags, info.route_label) == (33, 44, 1, 5)
    assert (info.user_data[:8], info.trans_id, info.token) == (b"abcdefgh", 7, root_token(7))


def test_balanced_messages_carry_labels(make_rig: Callable) -> None:
    rig = make_rig(("outputs", (0,), (0, 1)), outputs=2, options={"flags": SCATTER}).start()
    feed(rig)
    parts = [rig.get(1).info for _ in range(2)]
    assert [(info.data_label, info.route_label) for info in parts] == [(2, 2), (6, 6)]  # (0, 1) and (1, 2) of 2 x 3
    assert rig.get(1).info.data_flag & DataFlag.END


@pytest.mark.parametrize("flag", ["scatter", "gather", ""])
def test_labels_are_those_of_the_python_functions(make_rig: Callable, flag: str) -> None:
    """The table of runtime-semantics.md section 12.1, row by row, in both languages."""
    flags = {"scatter": SCATTER, "gather": GATHER, "": 0}[flag]
    rig = make_rig(("balance", (0,), (0, 1)), outputs=2, options={"flags": flags}).start()
    for trans_id, (policy, rows, cols, positions, count) in enumerate(BALANCE_TABLE, 1):
        rig.feed(trans_id, np.array([count, policy, rows, cols, *itertools.chain(*positions)], np.int64))
        code = int(rig.get().get_tensor())
        valid = policy in (0, 1, 2)
        config = BalanceConfig(rows, cols, AffinityPolicy(policy) if valid else policy)
        config.set_data_pos(positions)
        if config.fault(flag, count) is not None:
            assert code == 164000 and rig.get(1).info.data_flag & DataFlag.SKIP
            continue
        sent = [rig.get(1).info for _ in range(count)]
        assert code == 0
        assert [(info.data_label, info.route_label) for info in sent] == [(w.data, w.route) for w in config.labels()]
        assert count == 1 or rig.get(1).info.data_flag & DataFlag.END


def test_a_model_is_run(make_rig: Callable) -> None:
    rig = make_rig("invoke", invoked="model").start()
    rig.feed(7, np.arange(3.0))
    asked = rig.heap.get(rig.fed)
    assert (asked.info.trans_id, asked.info.data_label) == (7, asked.info.step_id)
    other = replace(asked.info, step_id=asked.info.step_id ^ 1)  # what a call that timed out has left behind
    rig.heap.put(rig.fetched, encode(np.zeros(1), other))
    rig.heap.put(rig.fetched, encode(np.arange(3.0) * 2, asked.info))
    out = rig.get()
    assert (out.get_tensor().tolist(), out.info.key, out.info.token) == ([0.0, 2.0, 4.0], (7, 0), root_token(7))


def test_an_exception_of_another_function_is_delivered_once(make_rig: Callable) -> None:
    rig = make_rig("exceptions").start()
    rig.notify(9900001, 4, 6)
    rig.feed(3, np.zeros(1))
    assert rig.get().info.trans_id == 3
    rig.feed(4, np.zeros(1))  # what is still to come of it is dropped
    rig.feed(5, np.zeros(1))
    assert rig.get().info.trans_id == 5
    rig.end()
    assert rig.stats().calls == 3


def test_an_exception_that_was_raised_can_be_taken(make_rig: Callable) -> None:
    rig = make_rig("behave", options={"flags": seam.EXCEPTION_CATCH}).start()
    rig.feed(9, np.array([10], np.int32))
    out = rig.get()
    error = out.aux.error
    assert (out.info.ret_code, error.kind, error.context) == (9900010, "raised", 5)
    assert error.message == "behave raised exception 9900010 (user context 5)"
    assert rig.take_raised() == (9900010, 9, 5)
    assert rig.take_raised() is None
    rig.feed(9, np.array([0], np.int32))  # what is still to come of it is dropped
    rig.feed(10, np.array([0], np.int32))
    assert rig.get().info.trans_id == 10


def test_a_function_is_not_told_of_its_own_exception(make_rig: Callable) -> None:
    rig = make_rig("behave", options={"flags": seam.EXCEPTION_CATCH}).start()
    rig.feed(9, np.array([10], np.int32))
    rig.get()
    rig.notify(9900010, 9, 5)
    rig.feed(10, np.array([0], np.int32))
    assert rig.get().info.trans_id == 10
    assert rig.stats().calls == 2
    rig.notify(0, 9, 0, expired=True)
    rig.feed(11, np.array([0], np.int32))  # notes are taken before the next call
    assert rig.get().info.trans_id == 11
    rig.feed(9, np.array([0], np.int32))
    assert rig.get().info.trans_id == 9


def test_an_exception_wakes_who_waits_for_a_state(make_rig: Callable) -> None:
    rig = make_rig("behave", options={"flags": seam.EXCEPTION_CATCH}).start()
    rig.feed(9, np.array([10], np.int32))
    rig.get()
    running = seam.RUNNING
    assert rig.library.dflow_udf_wait(rig.udf, running, 600_000_000_000) == running
    assert rig.take_raised() == (9900010, 9, 5)


def test_multi_functions_share_one_object(make_rig: Callable) -> None:
    rig = make_rig(("first", (0,), (0,)), ("second", (1,), (1,)), inputs=2, outputs=2).start()
    seen = []
    for trans_id in range(1, 4):
        for port in (0, 1):
            rig.feed(trans_id, None, port=port)
            seen.append(int(rig.get(port).get_tensor()[0]))
    assert seen == [1001, 2001, 3001, 4001, 5001, 6001]  # calls of both, and one Init


def test_null_messages_reach_the_function(make_rig: Callable) -> None:
    rig = make_rig("behave").start()
    rig.feed(1, None, flags=1)
    out = rig.get()
    assert (out.is_null, out.info.flags, out.info.token) == (True, 1, root_token(1))


def test_members_of_a_batch_pass_on(make_rig: Callable) -> None:
    rig = make_rig("behave").start()
    heads = [MsgInfo(n, token=root_token(n)) for n in (1, 2, 3)]
    aux = Aux(tuple(Member(head) for head in heads))
    for what in (0, 1, 2):
        rig.put(encode(np.array([what], np.int32), heads[0], aux=aux))
        out = rig.get()
        assert [m.info.trans_id for m in out.aux.members] == [1, 2, 3], what
    assert out.aux.error is not None


def test_memory_that_can_never_be_had_gives_a_null_pointer(make_rig: Callable) -> None:
    rig = make_rig("tensors", outputs=1, limit=60_000).start()
    rig.feed(7, np.zeros(2))
    assert int(rig.get().get_tensor()) == 0
    rig.end()


def test_attributes_that_are_no_attributes(make_rig: Callable) -> None:
    rig = make_rig("pass", options={"attrs": b"\x05\0\0\0abc", "attrs_size": 7})
    assert rig.open() == -1
    assert "attributes" in rig.error()

