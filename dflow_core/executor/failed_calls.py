"""The way of failed calls from executors to the caller's recording: a queue of its own, beside those of the graph.

What a call was given is sent before its error is, so it has arrived when the error does. There is no waiting: where
there is no room or no memory, the messages of that call are not recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dflow_core.errors import ClosedError, PoolExhaustedError, QueueFullError
from dflow_core.message import FlowMsg, MsgInfo, MsgType, seal
from dflow_core.model import DeployPlan, QueuePlan, frame_chunks
from dflow_core.recording import FailedCall
from dflow_core.spi import MemoryGroup, Queue

FAILED_CALLS = "failed calls"
"""Name of the queue; those of a graph hold an arrow."""
_DEPTH = 64


def packed(call: FailedCall) -> bytes:
    """A failed call as it travels."""
    return b"".join(frame_chunks(call.to_frame()))


def call_sender(group: MemoryGroup) -> Callable[[FailedCall], None]:
    """What an executor tells of failed calls."""
    queue = group.queue(FAILED_CALLS)

    def send(call: FailedCall) -> None:
        # No transaction in its head: if this process dies with it, nothing is owed for it.
        msg = FlowMsg(MsgInfo(msg_type=MsgType.RAW), np.frombuffer(packed(call), np.uint8))
        with contextlib.suppress(PoolExhaustedError, QueueFullError, ClosedError):
            block = seal(msg, lambda size: group.alloc(size, 0.0)).block
            assert block is not None
            queue.put(block, 0.0)

    return send


def arrived_calls(queue: Queue) -> list[bytes]:
    """What has arrived at the caller's side."""
    found = []
    with contextlib.suppress(ClosedError):
        while (block := queue.get(0.0)) is not None:
            body = FlowMsg.from_block(block).body
            if body is not None:
                found.append(body.tobytes())
    return found


def with_failed_calls(plan: DeployPlan) -> DeployPlan:
    """A plan with the queue that failed calls take."""
    return replace(plan, queues=(*plan.queues, QueuePlan(FAILED_CALLS, _DEPTH)))
