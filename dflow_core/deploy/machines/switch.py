"""Gives what a link brings to those it is for: the control lane to a conversation, all others to a gateway."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dflow_core.errors import DflowError
from dflow_core.spi import CONTROL_LANE, Gateway, LinkReceiver


class Switch(LinkReceiver):
    """Keeps what comes for the gateway before there is one.

    Args:
        control: Takes a message of the control lane.
        ended: Told once that nothing comes any more, after the gateway.
    """

    def __init__(self, control: Callable[[memoryview], None], ended: Callable[[DflowError | None], None]) -> None:
        self._control, self._ended = control, ended
        self._lock = threading.RLock()
        self._gateway: Gateway | None = None
        self._open: dict[int, memoryview] = {}
        self._early: list[tuple[int, bytes, memoryview | None]] = []
        self._over: tuple[DflowError | None] | None = None

    def join(self, gateway: Gateway) -> None:
        """From now on the gateway takes all lanes but the control lane."""
        with self._lock:
            self._gateway = gateway
            early, self._early = self._early, []
            for lane, head, payload in early:
                self._pass_on(gateway, lane, head, payload)
            if self._over is not None:
                gateway.ended(*self._over)

    def room_for(self, lane: int, head: bytes, size: int) -> memoryview:
        with self._lock:
            if lane != CONTROL_LANE and self._gateway is not None:
                return self._gateway.room_for(lane, head, size)
            room = self._open[lane] = memoryview(bytearray(size))
            return room

    def arrived(self, lane: int, head: bytes) -> None:
        with self._lock:
            payload = self._open.pop(lane, None)
            if lane != CONTROL_LANE:
                if self._gateway is None:
                    self._early.append((lane, head, payload))
                elif payload is not None:  # it began before there was a gateway
                    self._pass_on(self._gateway, lane, head, payload)
                else:
                    self._gateway.arrived(lane, head)
                return
        self._control(payload if payload is not None else memoryview(b""))

    def ended(self, error: DflowError | None) -> None:
        with self._lock:
            self._over = (error,)
            if self._gateway is not None:
                self._gateway.ended(error)
        self._ended(error)

    def _pass_on(self, gateway: Gateway, lane: int, head: bytes, payload: memoryview | None) -> None:
        if payload is not None:
            gateway.room_for(lane, head, len(payload))[:] = payload
        gateway.arrived(lane, head)
