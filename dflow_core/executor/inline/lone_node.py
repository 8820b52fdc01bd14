"""Makes a recorded call of a node that runs itself (C++ functions) again, in this process, where a debugger sees it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dflow_core.errors import ClosedError, WaitTimeoutError
from dflow_core.message import FlowMsg
from dflow_core.model import InstancePlan, PneModel, Route, UdfModel
from dflow_core.recording import FailedCall, copied, message_bytes
from dflow_core.spi import FuncParams, MemoryGroup, NodeLinks, NodeWorker, Queue

_DEPTH = 64
_SLICE = 0.05
_JOIN_LIMIT = 10.0


@dataclass(frozen=True, slots=True)
class LoneCall:
    """What came of it.

    Args:
        sent: Output of the node, and message.
        error: What the node itself ended with, beyond its call; None if it ended in good order.
    """

    sent: list[tuple[int, FlowMsg]]
    error: BaseException | None


def repeat_alone(
    worker: NodeWorker, part: PneModel, ports: tuple[int, int], group: MemoryGroup, call: FailedCall, limit: float
) -> LoneCall:
    """Feed a node the messages of a call, and no others.

    Args:
        worker: The node, not opened yet; it is closed afterwards.
        part: What it was loaded from.
        ports: Its inputs and outputs.
        group: Memory for its queues; what is given back does not need it.
        call: The call.
        limit: Seconds it may take.

    Raises:
        DflowError: it cannot be loaded.
        WaitTimeoutError: it takes longer.
    """
    inputs, outputs = ([f"{side} {i}" for i in range(n)] for side, n in zip(("in", "out"), ports))
    depth = max(_DEPTH, len(call.inputs))
    feeds = [group.create_queue(name, depth) for name in inputs]
    fetches = [group.create_queue(name, depth) for name in outputs]
    routes = tuple((Route((name,)),) for name in outputs)
    count = call.instance + 1
    plan = InstancePlan(part.name, call.instance, count, part.name, "cpu:0", 1, tuple(inputs), routes)
    attrs = part.params if isinstance(part, UdfModel) else {}
    params = FuncParams(
        part.name, call.instance, count, input_num=ports[0], output_num=ports[1], attrs=attrs, balance=part.balance
    )
    worker.open(NodeLinks(group, plan, params))
    try:
        _feed(part, feeds, group, call, limit)
        return _run(worker, group, fetches, limit)
    finally:
        worker.stop()
        worker.close()


def _feed(part: PneModel, feeds: Sequence[Queue], group: MemoryGroup, call: FailedCall, limit: float) -> None:
    spec = part.functions[call.function]
    for number, msg in zip(call.ports or range(len(call.inputs)), call.inputs):
        data = message_bytes(msg)
        block = group.alloc(len(data), limit)
        block.array(writable=True)[: len(data)] = np.frombuffer(data, np.uint8)
        feeds[spec.inputs[number]].put(block, 0.0)
    for feed in feeds:
        feed.close()


def _run(worker: NodeWorker, group: MemoryGroup, fetches: Sequence[Queue], limit: float) -> LoneCall:
    sent: list[tuple[int, FlowMsg]] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            worker.run()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="lone node", daemon=True)
    until, bell = time.monotonic() + limit, group.doorbell()
    thread.start()
    while thread.is_alive():
        if not _take(fetches, sent):
            bell.wait(list(fetches), timeout=_SLICE)
        if time.monotonic() > until:
            worker.stop()
            thread.join(_JOIN_LIMIT)
            raise WaitTimeoutError(f"the call did not come to an end within {limit:g} s")
    _take(fetches, sent)
    return LoneCall(sent, errors[0] if errors else None)


def _take(fetches: Sequence[Queue], sent: list[tuple[int, FlowMsg]]) -> bool:
    before = len(sent)
    for output, queue in enumerate(fetches):
        try:
            while (block := queue.get(timeout=0)) is not None:
                sent.append((output, copied(FlowMsg.from_block(block))))
        except ClosedError:
            continue
    return len(sent) > before
