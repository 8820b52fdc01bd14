"""What becomes of one call: the rules of `dflow_core/executor/node/call_context.py`, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.message import DataFlag, FlowMsg, MsgInfo, child_token, root_token
from dflow_core.model import Route
from dflow_core.types import Array

I32 = np.int32


def behave(what: int) -> Array:
    """The input that makes the function `behave` do something."""
    return np.array([what], I32)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [(0, [0, 1, 2, 1, 2, 0, 1]), (1, [0, 1, 2, 1, 1, 1, 1]), (2, [0, 1, 2, 0, 1, 2, 0])],
    ids=["by label", "by transaction", "by key"],
)
def test_messages_go_to_one_of_several_queues(make_rig: Callable, rule: int, wanted: list[int]) -> None:
    """The rules of `Route`; the last queue is spare."""
    rig = make_rig("pass", spread=(3, rule, 1)).start()
    keys = [(1, 0), (2, 0), (3, 0), (2, 1), (2, 2), (2, 3), (2, 4)]
    for (trans_id, label), queue in zip(keys, wanted):
        rig.feed(trans_id, np.zeros(1), route_label=label)
        assert rig.went_to() == queue, (trans_id, label)
    route = Route(("0", "1", "2", "3"), ("label", "transaction", "sticky")[rule], 1)
    assert [int(route.pick(*key)) for key in keys] == wanted


@pytest.mark.parametrize("rule", [0, 1, 2, 3])
def test_what_a_closed_queue_would_get_goes_to_an_open_one(make_rig: Callable, rule: int) -> None:
    """A queue that is closed while the graph runs belongs to an instance that is gone; the spare one comes last."""
    rig = make_rig("pass", spread=(3, rule, 1)).start()
    rig.heap.close(rig.outs[0])
    for trans_id in range(1, 5):
        rig.feed(trans_id, np.zeros(1))
        assert rig.went_to() in (1, 2)
    for queue in rig.more[:2]:
        rig.heap.close(queue)
    rig.feed(5, np.zeros(1))
    assert rig.went_to() == 3


def test_the_shortest_of_several_queues_gets_the_message(make_rig: Callable) -> None:
    rig = make_rig("pass", spread=(2, 3, 0)).start()
    for i in range(6):
        rig.feed(i + 1, np.zeros(1))
    rig.end()
    levels = [rig.heap.table.level(rig.heap.table.context, queue) for queue in (rig.outs[0], *rig.more)]
    assert levels == [2, 2, 2]


def test_a_message_that_is_sent_on_keeps_its_head_and_block(make_rig: Callable) -> None:
    rig = make_rig("pass").start()
    info = rig.feed(5, np.arange(4.0), start_time=1, end_time=2, flags=3, data_label=9, user_data=b"mine")
    out = rig.get()
    assert out.info.pack(0) == info.pack(0)
    assert np.array_equal(out.get_tensor(), np.arange(4.0))


def test_two_inputs_pair_by_transaction(make_rig: Callable) -> None:
    rig = make_rig(("add", (0, 1)), inputs=2).start()
    for trans_id in (1, 2, 3):
        rig.feed(trans_id, np.full(3, trans_id, np.float32))
    for trans_id in (3, 1, 2):
        rig.feed(trans_id, np.full(3, 10 * trans_id, np.float32), port=1)
    found = {out.info.trans_id: out.get_tensor()[0] for out in (rig.get(), rig.get(), rig.get())}
    assert found == {1: 11.0, 2: 22.0, 3: 33.0}


@pytest.mark.parametrize(
    ("what", "flag", "fields"),
    [
        (0, DataFlag.NONE, {}),
        (1, DataFlag.SKIP | DataFlag.NULL, {}),
        (7, DataFlag.NONE, {"ret_code": 9900009}),
        (8, DataFlag.NULL, {}),
    ],
)
def test_one_message_or_none_ends_with_the_token_of_the_input(
    make_rig: Callable, what: int, flag: int, fields: dict[str, int]
) -> None:
    rig = make_rig("behave").start()
    info = rig.feed(6, behave(what), start_time=4)
    out = rig.get()
    assert (out.info.token, out.info.data_flag, out.info.start_time) == (info.token, flag, 4)
    assert out.info.ret_code == fields.get("ret_code", 0)


@pytest.mark.parametrize(("what", "count"), [(5, 3), (11, 2)])
def test_several_messages_are_parts_and_an_end(make_rig: Callable, what: int, count: int) -> None:
    rig = make_rig("behave").start()
    info = rig.feed(6, behave(what))
    outs = [rig.get() for _ in range(count + 1)]
    token = root_token(6)
    for index, out in enumerate(outs[:-1]):
        assert (out.info.token, out.info.data_label) == (child_token(info.token, index), index + 1)
        token ^= out.info.token
    assert outs[-1].info.data_flag == DataFlag.END | DataFlag.NULL
    assert token ^ outs[-1].info.token == 0


@pytest.mark.parametrize(
    ("what", "code", "kind", "text"),
    [
        (2, 9900007, "NodeError", "behave returned code 9900007"),
        (3, 0, "std::out_of_range", "index 7 of 3"),
        (4, 0, "int", "an object that is no std::exception was thrown"),
        (13, 9900013, "NodeError", "behave returned code 9900013"),
        (10, 9900010, "UserException", "behave raised exception 9900010 (user context 5)"),
    ],
)
def test_a_failing_call_ends_its_own_transaction(
    make_rig: Callable, what: int, code: int, kind: str, text: str
) -> None:
    rig = make_rig("behave").start()
    rig.feed(1, behave(what))
    rig.feed(2, behave(0))
    out = rig.get()
    assert (out.info.trans_id, out.info.token, out.info.ret_code) == (1, root_token(1), code)
    assert out.info.data_flag == DataFlag.ERROR | DataFlag.NULL
    error = out.aux.error
    assert error is not None
    assert (error.kind, error.error_type, error.message) == ("node", kind, text)
    assert (error.node, error.instance, error.input_shapes) == ("node", 1, ("int32[1]",))
    assert rig.get().info.trans_id == 2
    rig.end()
    assert (rig.stats().calls, rig.stats().failed) == (2, 1)


def test_parts_that_were_sent_before_the_error_stay(make_rig: Callable) -> None:
    rig = make_rig("behave").start()
    rig.feed(1, behave(6))
    flags = [rig.get().info.data_flag for _ in range(3)]
    assert flags == [DataFlag.NONE, DataFlag.NONE, DataFlag.ERROR | DataFlag.NULL]


def test_a_message_for_another_transaction_leaves_its_own_skipped(make_rig: Callable) -> None:
    rig = make_rig("behave").start()
    rig.feed(1, behave(9))
    first, second = rig.get(), rig.get()
    assert (first.info.trans_id, first.info.token) == (77, root_token(77))
    assert first.info.data_flag == DataFlag.CUSTOM_ID
    assert (second.info.trans_id, second.info.token) == (1, root_token(1))
    assert second.info.data_flag & DataFlag.SKIP


def test_an_answer_from_another_thread_comes_with_its_token(make_rig: Callable) -> None:
    rig = make_rig("behave").start()
    info = rig.feed(3, behave(14), data_label=4)
    out = rig.get()
    assert (out.info.token, out.info.data_label, out.info.data_flag) == (info.token, 4, DataFlag.NONE)


@pytest.mark.parametrize("flag", [DataFlag.SKIP, DataFlag.END, DataFlag.ERROR])
def test_endings_pass_without_a_call(make_rig: Callable, flag: int) -> None:
    rig = make_rig("behave").start()
    msg = FlowMsg(rig_info(9, flag))
    rig.put(msg)
    out = rig.get()
    assert out.info.pack(0) == msg.info.pack(0)
    rig.end()
    assert rig.stats().calls == 0


def test_a_full_output_keeps_order_and_holds_input_back(make_rig: Callable) -> None:
    rig = make_rig("behave", depth=2).start()
    for trans_id in range(1, 4):
        rig.feed(trans_id, behave(5))
    seen = [rig.get().info for _ in range(12)]
    assert [info.trans_id for info in seen] == [n for n in range(1, 4) for _ in range(4)]
    assert [info.data_label for info in seen] == [1, 2, 3, 0] * 3


def test_an_output_of_another_function_is_refused(make_rig: Callable) -> None:
    rig = make_rig(("pass", (0,), (1,)), outputs=2).start()
    rig.feed(1, behave(0))
    assert rig.get(1).aux.error.message == "pass returned code 164000"


def test_with_stop_on_error_a_failing_call_fails_the_instance(make_rig: Callable) -> None:
    rig = make_rig("behave", options={"flags": 1}).start()
    rig.feed(8, behave(2))
    rig.wait_for(5)
    failure = rig.failure()
    assert (failure.code, failure.is_node, failure.trans_id) == (9900007, 1, 8)
    assert rig.get().info.data_flag & DataFlag.ERROR


def rig_info(trans_id: int, flag: int) -> MsgInfo:
    """Head of an ending."""
    return MsgInfo(trans_id, token=root_token(trans_id), data_flag=flag | DataFlag.NULL)
