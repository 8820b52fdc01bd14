"""Functions that take messages from queues themselves."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from dflow_core.message import DataFlag, FlowMsg, MsgInfo, root_token

ERR_TIME_OUT, STATUS_REDEPLOYING, STATUS_EXIT = 564001, 564003, 564004
RUNNING, SUSPENDED, FINISHED = 2, 3, 4


def stream(name: str, inputs: tuple[int, ...] = (0,)) -> tuple[object, ...]:
    """A function with queues."""
    return name, inputs, (0,), True


def test_messages_that_are_sent_on_keep_their_tokens(make_rig: Callable) -> None:
    rig = make_rig(stream("forward")).start()
    heads = [rig.feed(trans_id, np.array([trans_id]), data_label=trans_id) for trans_id in (4, 9, 2)]
    assert [rig.get().info.pack(0) for _ in heads] == [head.pack(0) for head in heads]
    rig.end()
    assert rig.is_silent()


def test_endings_pass_without_the_function(make_rig: Callable) -> None:
    rig = make_rig(stream("forward")).start()
    for flag in (DataFlag.SKIP, DataFlag.ERROR, DataFlag.END):
        info = MsgInfo(3, token=root_token(3), data_flag=flag | DataFlag.NULL)
        rig.put(FlowMsg(info))
        assert rig.get().info.pack(0) == info.pack(0)


def test_outputs_without_a_transaction_are_counted(make_rig: Callable) -> None:
    rig = make_rig(stream("pairs")).start()
    for trans_id in range(1, 7):
        rig.feed(trans_id, np.array([trans_id]))
    outs = [rig.get() for _ in range(3)]
    assert [(out.info.trans_id, int(out.get_tensor()[0])) for out in outs] == [(1, 3), (2, 7), (3, 11)]
    assert [out.info.token for out in outs] == [root_token(n) for n in (1, 2, 3)]
    rig.end()
    ends = [rig.get().info for _ in range(3)]  # what got no answer ends with the inputs
    assert [(info.trans_id, info.data_flag) for info in ends] == [(n, DataFlag.SKIP | DataFlag.NULL) for n in (4, 5, 6)]


def test_messages_that_were_forgotten_end_soon(make_rig: Callable) -> None:
    rig = make_rig(stream("even")).start()
    for trans_id in range(1, 7):
        rig.feed(trans_id, np.array([trans_id]))
    flags = {}
    for _ in range(5):  # 1 is not known to be forgotten before something was sent
        info = rig.get().info
        flags[info.trans_id] = bool(info.data_flag & DataFlag.SKIP)
    assert flags == {1: True, 2: False, 3: True, 4: False, 6: False} or flags == {
        1: True, 2: False, 3: True, 4: False, 5: True
    }
    rig.end()


def test_dequeue_says_when_nothing_comes(make_rig: Callable) -> None:
    rig = make_rig(stream("times"), depth=5).start()
    rig.feed(1, np.zeros(1))
    assert rig.get().get_tensor().tolist() == [ERR_TIME_OUT, ERR_TIME_OUT, 5, 0]


def test_a_failing_function_ends_what_it_had_taken(make_rig: Callable) -> None:
    rig = make_rig(stream("stream_fails")).start()
    rig.feed(8, np.zeros(1))
    out = rig.get()
    assert (out.info.trans_id, out.info.ret_code) == (8, 9900020)
    assert out.aux.error.message == "stream_fails returned code 9900020"
    rig.end()


def test_stop_ends_a_function_that_waits(make_rig: Callable) -> None:
    rig = make_rig(stream("forward")).start()
    rig.library.dflow_udf_stop(rig.udf)
    rig.wait_for(4)


def test_a_wait_for_a_message_says_why_it_ended(make_rig: Callable, capfd: pytest.CaptureFixture[str]) -> None:
    rig = make_rig(stream("tells")).start()
    rig.feed(1)
    rig.get()  # it is in the function, and stays there
    assert rig.library.dflow_udf_suspend(rig.udf) == 0
    rig.wait_for(SUSPENDED)
    assert rig.library.dflow_udf_recover(rig.udf) == 0
    rig.wait_for(RUNNING)
    rig.feed(2)
    rig.get()
    rig.library.dflow_udf_stop(rig.udf)
    rig.wait_for(FINISHED)
    codes = [int(code) for code in re.findall(r"the wait ended with (\d+)", capfd.readouterr().err)]
    assert codes == [STATUS_REDEPLOYING, STATUS_EXIT]


def test_plain_and_stream_functions_share_an_object(make_rig: Callable) -> None:
    rig = make_rig(stream("forward"), ("echo", (1,), (1,)), inputs=2, outputs=2, options={"threads": 1}).start()
    rig.feed(1, np.zeros(1))
    rig.feed(1, np.ones(1), port=1)
    assert [float(rig.get(port).get_tensor()[0]) for port in (0, 1)] == [0.0, 1.0]


def test_a_function_that_ends_with_one_queue_lets_the_others_pass(make_rig: Callable) -> None:
    rig = make_rig(("forward", (0, 1), (0,), True), inputs=2).start()
    rig.feed(1, np.zeros(1))
    assert rig.get().info.trans_id == 1
    rig.feed(2, np.ones(1), port=1)
    rig.end()
    info = rig.get().info
    assert (info.trans_id, bool(info.data_flag & DataFlag.SKIP)) == (2, True)
    assert rig.is_silent()
