"""Messages between the queues of two machines: once each, in order, bounded, and nothing held at the end."""

from __future__ import annotations

import numpy as np
import pytest

from dflow_core.errors import LinkLostError, NodeError
from dflow_core.executor.error_messages import error_of
from dflow_core.message import Aux, DataFlag, ErrorInfo, FlowMsg, Member, MsgInfo, decode
from dflow_core.model import QueuePlan
from tests.unit.executor.machines import TwoMachines
from tests.unit.executor.support import message


def test_messages_come_out_of_the_queue_of_the_same_name_once_and_in_order() -> None:
    two = TwoMachines([QueuePlan("q", 4), QueuePlan("r", 4)], back=["r"])
    two.head.put(1, 2, 3)
    two.far.put(4, 5, queue="r")
    two.settle()
    assert (two.far.taken(), two.head.taken("r")) == ([1, 2, 3], [4, 5])
    assert (two.head.taken(), two.far.taken("r")) == ([], [])


def test_payload_and_head_arrive_as_they_were() -> None:
    two = TwoMachines([QueuePlan("q", 4)])
    value = np.arange(1000, dtype=np.float32).reshape(10, 100)
    two.head.queue().put(two.head.block(message(7, value, data_label=3, user_data=b"mine")))
    two.settle()
    (msg,) = two.far.messages()
    np.testing.assert_array_equal(decode(msg), value)
    assert (msg.info.trans_id, msg.info.data_label, msg.info.user_data.rstrip(b"\0")) == (7, 3, b"mine")


@pytest.mark.parametrize(
    "msg",
    [
        FlowMsg(MsgInfo(3, data_flag=DataFlag.SKIP | DataFlag.NULL)),
        FlowMsg(MsgInfo(3, data_flag=DataFlag.END | DataFlag.NULL, token=9)),
        FlowMsg(MsgInfo(3, flags=1, data_flag=DataFlag.NULL)),
        FlowMsg(MsgInfo(3, data_flag=DataFlag.ERROR), None, Aux((Member(MsgInfo(4)),), ErrorInfo("node", "broke"))),
    ],
    ids=["skip", "end-of-parts", "end-of-sequence", "error"],
)
def test_messages_without_data_travel_as_they_are(msg: FlowMsg) -> None:
    two = TwoMachines([QueuePlan("q", 4)])
    sent = two.head.block(msg)
    before = bytes(sent.array())
    two.head.queue().put(sent)
    two.settle()
    got = two.far.queue().get(0.0)
    assert got is not None
    assert bytes(got.array()) == before


def test_only_the_bytes_of_the_message_travel_not_all_of_its_block() -> None:
    two = TwoMachines([QueuePlan("q", 4)])
    msg = message(1, np.zeros(10, np.uint8))
    block = two.head.group.alloc(msg.wire_size + 5000)
    msg.write_to(block)
    two.head.queue().put(block)
    two.settle()
    got = two.far.queue().get(0.0)
    assert got is not None
    assert got.nbytes == msg.wire_size


@pytest.mark.parametrize(("depth", "window"), [(1, 1), (3, 3), (8, 8), (100, 8)])
def test_no_more_than_the_window_is_on_the_way_to_a_full_queue(depth: int, window: int) -> None:
    two = TwoMachines([QueuePlan("q", depth)])
    sent = range(1, 2 * depth + window + 1)
    left = list(sent)
    for _ in range(3):
        while left and two.head.queue().level() < depth:
            two.head.put(left.pop(0))
        two.settle()
    on_the_way = len(sent) - len(left) - two.head.queue().level() - two.far.queue().level()
    assert (two.far.queue().level(), on_the_way) == (depth, window)
    got: list[int] = []
    for _ in sent:
        got += two.far.taken()
        two.settle()
        while left and two.head.queue().level() < depth:
            two.head.put(left.pop(0))
    assert got == list(sent)


def test_a_full_queue_does_not_hold_up_others() -> None:
    two = TwoMachines([QueuePlan("q", 1), QueuePlan("r", 1)])
    two.head.put(1)
    two.settle()
    two.head.put(2)
    two.settle()
    for trans_id in (3, 4, 5):
        two.head.put(trans_id, queue="r")
        two.settle()
        assert two.far.taken("r") == [trans_id]
    assert two.far.taken() == [1]


# ------------------------------------------------------------------------------------------------ closed queues


def test_a_closed_outbox_ends_at_the_far_end_once_and_after_its_last_message() -> None:
    two = TwoMachines([QueuePlan("q", 1)])
    two.head.put(1)
    two.settle()
    two.head.put(2)
    two.head.queue().close()
    two.settle()
    assert two.far.heard.ended == []  # the queue is full: its last message is on the way
    assert two.far.taken() == [1]
    two.settle()
    assert two.far.heard.ended == ["q"]
    assert two.far.taken() == [2]
    two.settle()
    assert two.far.heard.ended == ["q"]


def test_an_outbox_closed_empty_ends_at_once() -> None:
    two = TwoMachines([QueuePlan("q", 2), QueuePlan("r", 2)], back=["r"])
    two.far.queue("r").close()
    two.settle()
    assert (two.far.heard.ended, two.head.heard.ended) == ([], ["r"])


def test_a_queue_closed_while_messages_wait_for_it_lets_them_go() -> None:
    two = TwoMachines([QueuePlan("q", 1)])
    for trans_id in (1, 2, 3):
        two.head.put(trans_id)
        two.settle()
    two.far.queue().close()
    two.settle()
    assert two.far.taken() == [1]
    assert (two.far.heard.failed, two.far.in_use, two.head.in_use) == ([], 0, 0)


def test_what_arrives_over_one_gateway_leaves_over_another() -> None:
    first = TwoMachines([QueuePlan("q", 4)], back=["q"])
    between = first.head.group  # of the application's machine, which lies between two others
    second = TwoMachines([QueuePlan("q", 4)], group=between)
    first.far.put(1, 2, 3)
    first.far.queue().close()
    first.settle()
    assert first.head.heard.ended == ["q"]
    between.queue("q").close()
    second.settle()
    assert (second.far.taken(), second.far.heard.ended) == ([1, 2, 3], ["q"])
    assert between.stats().blocks_in_use == 0


# ------------------------------------------------------------------------------------------------------ memory


def test_messages_wait_in_ordinary_memory_where_there_is_none_in_the_group_and_keep_their_order() -> None:
    two = TwoMachines([QueuePlan("q", 8)], memory=(1 << 20, 64 << 10))
    hog = two.far.group.alloc(56 << 10)
    value = np.zeros(20 << 10, np.uint8)
    for trans_id in (1, 2, 3):
        two.head.put(trans_id, value=value)
    two.head.put(4)
    two.settle()
    assert two.far.taken() == []  # not even the small one, for which there is memory
    assert two.far.mover.waits().timeout == 0
    hog.release()
    got: list[int] = []
    while len(got) < 4:
        two.settle()
        step = two.far.taken()
        assert step
        got += step
    assert got == [1, 2, 3, 4]
    assert two.far.mover.waits().timeout > 0


def test_memory_that_came_after_a_wait_is_used_for_the_message_that_needs_it() -> None:
    two = TwoMachines([QueuePlan("q", 8)], memory=(1 << 20, 64 << 10))
    hog = two.far.group.alloc(60 << 10)
    two.head.put(1, value=np.zeros(20 << 10, np.uint8))
    two.settle()
    waits = two.far.mover.waits()
    assert (waits.timeout, waits.memory > 20 << 10) == (0, True)
    hog.release()
    two.far.mover.use(two.far.group.alloc(waits.memory - 1))
    assert two.far.mover.waits().memory == waits.memory  # that is not what it needs
    two.far.mover.use(two.far.group.alloc(waits.memory))
    assert (two.far.mover.waits().timeout > 0, two.far.mover.waits().memory) == (True, 0)
    two.settle()
    assert two.far.taken() == [1]


def test_a_message_that_never_fits_ends_its_own_transactions_with_what_to_do() -> None:
    two = TwoMachines([QueuePlan("q", 8)], memory=(1 << 20, 64 << 10))
    big = message(2, np.zeros(100 << 10, np.uint8))
    big.aux = Aux((Member(MsgInfo(2)), Member(MsgInfo(9, token=6))))
    two.head.put(1)
    two.head.queue().put(two.head.block(big))
    two.head.put(3)
    two.settle()
    one, error, three = two.far.messages()
    assert (one.info.trans_id, error.info.trans_id, three.info.trans_id) == (1, 2, 3)
    assert [member.info.trans_id for member in error.aux.members] == [2, 9]
    assert (one.is_data, error.is_data, error.info.token, three.is_data) == (True, False, big.info.token, True)
    raised = error_of(error)
    assert isinstance(raised, NodeError)
    words = ["'q'", "machine 'far'", "the application's machine", f"{big.wire_size} bytes", "65536", "memory_limit"]
    assert [word for word in words if word not in str(raised)] == []
    assert raised.trans_id == 2


# ------------------------------------------------------------------------------------------------------- losses


def test_no_block_is_left_of_a_message_whose_sender_went_away_in_its_middle() -> None:
    """BC-006: what was half received is given back when the other end is lost."""
    two = TwoMachines([QueuePlan("q", 8)], memory=(70 << 20, 70 << 20))
    two.settle()
    two.head.put(1, value=np.zeros(64 << 20, np.uint8))
    two.head.mover.turn()
    (lane,) = two.head.link.waiting()
    room = two.head.link.start(lane, two.far.receiver)
    assert two.far.in_use == 1
    two.far.receiver.ended(LinkLostError("machine 'head' is lost"))
    del room  # the link lets go of what it writes to
    two.far.mover.turn()
    assert two.far.in_use == 0
    assert [str(error) for error in two.far.heard.failed] == ["machine 'head' is lost"]
    two.head.link.lanes.clear()
    assert two.head.in_use == 0
