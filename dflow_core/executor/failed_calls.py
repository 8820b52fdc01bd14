"""The way of failed calls from executors to the caller's recording: a queue of its own, beside those of the graph.

What a call was given is sent before its error is, so it has arrived when the error does. There is no waiting: where
there is no room or no memory, the messages of that call are not recorded.
"""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dflow_core.errors import ClosedError, ModelFormatError, PoolExhaustedError, QueueFullError
from dflow_core.message import Aux, FlowMsg, MsgInfo, MsgType, seal
from dflow_core.model import Crossing, DeployPlan, QueuePlan, frame_chunks
from dflow_core.recording import FailedCall, message_of
from dflow_core.spi import MemoryGroup, Queue

FAILED_CALLS = "failed calls"
"""Name of the queue; those of a graph hold an arrow."""
_DEPTH = 64
_NATIVE = b"dflowfc1"


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
                found.append(_as_packed(body.tobytes()))
    return found


def _as_packed(data: bytes) -> bytes:
    """A call as it travels from Python, whoever told of it; what cannot be read is left for the recorder to refuse."""
    with contextlib.suppress(ModelFormatError):
        return packed(native_call(data)) if data.startswith(_NATIVE) else data
    return data


def native_call(data: bytes) -> FailedCall:
    """A call as native code tells of it: magic 8, function, messages, whether they were taken from queues, padding,
    the input of each message, padding to 8, bytes of the error, bytes of each message; the error as an aux section, the
    messages. Little-endian; the first ones of 4 bytes, sizes of 8.

    Raises:
        ModelFormatError: it says something else.
    """
    try:
        function, count, is_stream, _ = struct.unpack_from("<4I", data, len(_NATIVE))
        at = len(_NATIVE) + 16
        ports = struct.unpack_from(f"<{count}I", data, at)
        at += 4 * count + -4 * count % 8
        first, *sizes = struct.unpack_from(f"<{1 + count}Q", data, at)
        at += 8 + 8 * count
        ends = list(itertools.accumulate([at + first, *sizes]))
        error = Aux.unpack(data[at : ends[0]]).error
        messages = tuple(message_of(data[start:end]) for start, end in itertools.pairwise(ends))
    except (struct.error, ValueError, KeyError, TypeError) as cause:
        raise ModelFormatError(f"a failed call cannot be read: {cause}") from cause
    if error is None:
        raise ModelFormatError("a failed call cannot be read: it says no error")
    head = None if is_stream or not messages else messages[0]
    return FailedCall(error.node, error.instance, function, head, messages, error, ports if is_stream else ())


def with_failed_calls(plan: DeployPlan) -> DeployPlan:
    """A plan with the queue that failed calls take, from every machine."""
    crossings = (Crossing(FAILED_CALLS, machine.name, "") for machine in plan.machines)
    return replace(
        plan, queues=(*plan.queues, QueuePlan(FAILED_CALLS, _DEPTH)), crossings=(*plan.crossings, *crossings)
    )
