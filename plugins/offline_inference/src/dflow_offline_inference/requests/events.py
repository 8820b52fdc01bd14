"""What can be watched of a request: its handshakes, in the order of the page 'one request, four layers'."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

LOGGER = logging.getLogger("dflow.offline_inference")


@dataclass(frozen=True, slots=True)
class Event:
    """One handshake of one request.

    Args:
        request_id: The request.
        layer: Who does it: `OfflineInference`, `Scheduler`, `ExecutionEngine` or `ModelWorker`.
        step: What is done.
        thread: Name of the thread it is done in.
    """

    request_id: int
    layer: str
    step: str
    thread: str = field(default_factory=lambda: threading.current_thread().name)


EventSink: TypeAlias = Callable[[Event], None]


def log(level: int, request_id: int, message: str, *args: object, cause: BaseException | None = None) -> None:
    """One line about one request; every line of this package goes through here or names no request."""
    LOGGER.log(level, "request %d: " + message, request_id, *args, exc_info=cause)
