"""The gateway: a thread around a mover."""

from __future__ import annotations

import threading
import traceback

from dflow_core.errors import DeployError, DflowError, PoolExhaustedError
from dflow_core.executor.gateway.intake import Intake
from dflow_core.executor.gateway.mover import Mover
from dflow_core.executor.gateway.refused import machine_name
from dflow_core.spi import Gateway, GatewayEvents, GatewayPlan, Link, MemoryGroup

_MEMORY_SLICE = 0.01
"""Seconds of a wait for memory, during which nothing else is moved."""
_END_LIMIT = 10.0


class QueueGateway(Gateway):
    """Moves messages in a thread of its own.

    Args:
        group: The memory group of this machine; it holds the queues and must outlive the gateway.
        link: Where messages go; not its own.
        plan: What crosses.
        events: Who hears of what happens.
    """

    def __init__(self, group: MemoryGroup, link: Link, plan: GatewayPlan, events: GatewayEvents) -> None:
        self._group, self._bell = group, group.doorbell()
        self._intake = Intake(group, self._bell.ring)
        self._mover = Mover(group, link, plan, events, self._intake)
        self._events, self._peer = events, machine_name(plan.peer)
        self._moving = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"dflow-gateway-{plan.peer or 'head'}", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def tell_cancelled(self) -> None:
        if not self._is_closed:
            self._bell.ring()

    def discard(self) -> bool:
        with self._moving:
            if self._is_closed:
                return True
            was_nothing = self._mover.discard()
        self._bell.ring()  # there may be news
        return was_nothing

    def close(self) -> None:
        self._intake.close()
        if not self._is_closed:
            self._is_closed = True
            self._bell.ring()
        if self._thread is threading.current_thread():
            return  # it lets go itself
        if self._thread.is_alive():
            self._thread.join(_END_LIMIT)
        with self._moving:
            self._mover.let_go()

    def room_for(self, lane: int, head: bytes, size: int) -> memoryview:
        return self._intake.room_for(lane, size)

    def arrived(self, lane: int, head: bytes) -> None:
        self._intake.arrived(lane, head)

    def ended(self, error: DflowError | None) -> None:
        self._intake.ended(error)

    def _run(self) -> None:
        try:
            while not self._is_closed:
                with self._moving:
                    self._mover.turn()
                    waits, news = self._mover.waits(), self._mover.news()
                for tell in news:
                    tell()
                if not self._bell.wait(waits.readable, waits.writable, waits.timeout) and waits.memory:
                    self._wait_for_memory(waits.memory)
        except Exception as error:
            traceback.clear_frames(error.__traceback__)
            if not self._is_closed:
                self._events.failed(self._as_failure(error))
        finally:
            self._intake.close()
            with self._moving:
                self._mover.let_go()

    def _wait_for_memory(self, size: int) -> None:
        try:
            block = self._group.alloc(size, _MEMORY_SLICE)
        except PoolExhaustedError:
            return
        with self._moving:
            self._mover.use(block)

    def _as_failure(self, error: Exception) -> DflowError:
        if isinstance(error, DflowError):
            return error
        failure = DeployError(f"internal error of the gateway to {self._peer}: {type(error).__name__}: {error}")
        failure.__cause__ = error
        return failure


def make_gateway(group: MemoryGroup, link: Link, plan: GatewayPlan, events: GatewayEvents) -> Gateway:
    """The gateway of a link, at either end; see `spi.gateway`."""
    return QueueGateway(group, link, plan, events)
