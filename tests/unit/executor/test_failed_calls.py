"""The way of failed calls to the caller: never in the way of anything else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dflow_core.builtin_transport import InprocTransport
from dflow_core.executor.failed_calls import FAILED_CALLS, arrived_calls, call_sender, packed, with_failed_calls
from dflow_core.message import ErrorInfo, MsgInfo, encode
from dflow_core.model import DeployPlan, read_frame
from dflow_core.recording import FailedCall
from dflow_core.spi import GroupConfig, MemoryGroup


@pytest.fixture
def group() -> Iterator[MemoryGroup]:
    made = InprocTransport().create_group(GroupConfig(memory_limit=1 << 20, max_blocks=64, max_members=4, max_queues=2))
    yield made
    made.close()


def call(size: int = 10) -> FailedCall:
    return FailedCall("n", 0, 0, None, (encode(np.zeros(size), MsgInfo(trans_id=3)),), ErrorInfo("node", "bad"))


def test_call_arrives_as_it_was_sent(group: MemoryGroup) -> None:
    queue = group.create_queue(FAILED_CALLS, 4)
    send = call_sender(group)
    send(call())
    send(call(20))
    assert arrived_calls(queue) == [packed(call()), packed(call(20))]
    assert FailedCall.from_frame(read_frame(packed(call()))).trans_ids == (3,)
    assert arrived_calls(queue) == [] and group.stats().blocks_in_use == 0


def test_without_room_memory_or_a_reader_the_call_is_left_out_and_nothing_waits(group: MemoryGroup) -> None:
    queue = group.create_queue(FAILED_CALLS, 1)
    send = call_sender(group)
    send(call(1 << 20))  # more than all the memory
    assert arrived_calls(queue) == []
    send(call(1))
    send(call(2))
    assert arrived_calls(queue) == [packed(call(1))]
    queue.close()
    send(call())
    assert arrived_calls(queue) == [] and group.stats().blocks_in_use == 0


def test_plan_gets_one_more_queue() -> None:
    plan = DeployPlan("g", "shm", (), (), (), (), 1)
    assert [queue.name for queue in with_failed_calls(plan).queues] == [FAILED_CALLS]
