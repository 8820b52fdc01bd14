"""Answers find their way into full queues; queues close when nobody is left to fill them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.deploy.supervision.answers import AnswerBox
from dflow_core.deploy.supervision.queue_closer import QueueCloser
from dflow_core.deploy.supervision.recovery import Answer
from dflow_core.errors import ClosedError, PoolExhaustedError
from dflow_core.message import Block, DataFlag, FlowMsg, MsgInfo, encode
from dflow_core.model import DeployPlan, InstancePlan, ProcessPlan, QueuePlan, Route
from dflow_core.spi import GroupConfig, MemoryGroup


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    """A group with queues `a` and `b` of depth 2."""
    made = InprocTransport().create_group(GroupConfig())
    for name in ("a", "b"):
        made.create_queue(name, 2)
    yield made
    made.close()


def answer(queue: str, trans_id: int) -> Answer:
    """An error for a transaction."""
    return Answer(queue, FlowMsg(MsgInfo(trans_id=trans_id, data_flag=DataFlag.ERROR | DataFlag.NULL)))


def put(group: MemoryGroup, queue: str, trans_id: int) -> None:
    """Put an ordinary message."""
    block = encode(np.zeros(1), MsgInfo(trans_id=trans_id), group.alloc).block
    assert block is not None
    group.queue(queue).put(block, 0)


def take(group: MemoryGroup, queue: str) -> int:
    """Transaction of the next message."""
    block = group.queue(queue).get(0)
    assert block is not None
    return FlowMsg.from_block(block).info.trans_id


def test_answers_wait_for_room_in_order_and_hold_up_no_other_queue(group):
    box = AnswerBox(group)
    put(group, "a", 1)
    put(group, "a", 2)
    box.send([answer("a", 3), answer("a", 4), answer("b", 5)])
    assert box.pending
    assert take(group, "b") == 5
    assert take(group, "a") == 1
    box.retry()
    assert [take(group, "a"), take(group, "a")] == [2, 3]
    box.retry()
    assert take(group, "a") == 4
    assert not box.pending


def test_answers_wait_for_memory(group, monkeypatch):
    def exhausted(size: int, timeout: float | None = 0.0) -> Block:
        raise PoolExhaustedError("no memory")

    box = AnswerBox(group)
    with monkeypatch.context() as patch:
        patch.setattr(group, "alloc", exhausted)
        box.send([answer("a", 1)])
        assert box.pending
    box.retry()
    assert not box.pending and take(group, "a") == 1


def test_answers_for_a_closed_queue_are_dropped(group):
    group.queue("a").close()
    box = AnswerBox(group)
    box.send([answer("a", 1), answer("nowhere", 2)])
    assert not box.pending


def test_waiting_answers_can_be_dropped(group):
    box = AnswerBox(group)
    box.send([answer("a", number) for number in range(5)])
    box.drop()
    assert not box.pending


def plan() -> DeployPlan:
    """`x` feeds two instances of `n`, which share both queues."""
    instances = [
        InstancePlan("n", k, 2, f"n#{k}", "cpu:0", 1, ("a",), ((Route(("b",)),),)) for k in range(2)
    ]
    processes = tuple(ProcessPlan(i.process, "UDF", "", (i,)) for i in instances)
    return DeployPlan("g", "", processes, (QueuePlan("a", 2), QueuePlan("b", 2)), ((Route(("a",)),),), ("b",), 1)


def closed(group: MemoryGroup, queue: str) -> bool:
    """Whether a queue is closed."""
    try:
        while group.queue(queue).get(0) is not None:
            pass
    except ClosedError:
        return True
    return False


def test_a_queue_closes_when_its_last_producer_is_done(group):
    closer = QueueCloser(plan(), group)
    closer.end_feeding()
    assert closed(group, "a") and not closed(group, "b")
    closer.done("n", 0)
    closer.done("n", 0)
    assert not closed(group, "b")
    closer.done("n", 1)
    assert closed(group, "b")


def test_all_queues_close_at_once_on_request(group):
    closer = QueueCloser(plan(), group)
    closer.close_all()
    closer.close_all()
    assert closed(group, "a") and closed(group, "b")


def test_results_are_discarded(group):
    put(group, "a", 1)
    put(group, "b", 1)
    QueueCloser(plan(), group).discard_results()
    assert group.queue("b").level() == 0 and group.queue("a").level() == 1
