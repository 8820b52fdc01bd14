"""Where the messages of one crossing arrive: from the intake into their queue."""

from __future__ import annotations

import numpy as np

from dflow_core.errors import ClosedError, PoolExhaustedError, QueueFullError
from dflow_core.executor.gateway.flow import Incoming, window_of
from dflow_core.executor.gateway.refused import too_large
from dflow_core.executor.lossy import LossySender, has_no_data
from dflow_core.message import Block, FlowMsg, HeapBlock, MsgInfo
from dflow_core.spi import GatewayPlan, MemoryGroup, Queue


class Arrival:
    """Belongs to the gateway's thread.

    Args:
        group: Where blocks come from.
        queue: Where messages go; a `LossySender` if it may drop some.
        plan: Of the gateway.

    Attributes:
        flow: What has arrived, and what the other end may send.
        is_full: Whether the oldest message waits for room in the queue.
    """

    def __init__(self, group: MemoryGroup, queue: Queue, plan: GatewayPlan) -> None:
        self._group, self._plan = group, plan
        self.queue = queue
        self.flow = Incoming(window_of(queue.depth))
        self.is_full = False

    @property
    def needs(self) -> int:
        """Bytes of memory that the oldest message waits for; 0 if it waits for none."""
        waiting = self.flow.waiting
        return waiting[0].nbytes if waiting and isinstance(waiting[0], HeapBlock) else 0

    def put(self) -> int:
        """Put what there is room for into the queue; how many of them had come in ordinary memory."""
        waiting, moved = self.flow.waiting, 0
        self.is_full = False
        while waiting:
            if self.needs:
                if not self._move_in():
                    break
                moved += 1
            if self._must_wait_for_notices():
                break
            try:
                self.queue.put(waiting[0], 0.0)
            except QueueFullError:
                self.is_full = True
                break
            except ClosedError:
                pass  # the graph ends
            self.flow.take()
        return moved

    def move_to(self, block: Block) -> None:
        """Copy the oldest message, which lies in ordinary memory, into a block of its size."""
        waiting = self.flow.waiting
        np.copyto(block.array(writable=True), waiting[0].array())
        waiting[0] = block

    def _move_in(self) -> bool:
        """Copy the oldest message out of ordinary memory, if there is memory now."""
        waiting = self.flow.waiting
        while True:
            try:
                self.move_to(self._group.alloc(self.needs, 0.0))
                return True
            except PoolExhaustedError as error:
                if not error.never_fits:
                    return False
            waiting[0] = too_large(waiting[0], self._plan, self.queue.name, self._group.stats().memory_limit)

    def _must_wait_for_notices(self) -> bool:
        """Whether notices find no room and this is one more: they would pile up here, and are put together there."""
        if not isinstance(self.queue, LossySender) or not self.queue.pending:
            return False
        return has_no_data(FlowMsg(MsgInfo.unpack(self.flow.waiting[0].array())[0]))
