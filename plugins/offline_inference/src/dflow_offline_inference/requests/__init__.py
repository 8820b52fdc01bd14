"""What a request is: its data, its life, what ends it and what can be watched of it. Knows no layer."""

from dflow_offline_inference.requests.errors import (
    DeadlineError,
    DependencyError,
    NotStartedError,
    RequestCancelledError,
    RequestError,
    RequestFailedError,
    TransitionError,
    WorkerLostError,
)
from dflow_offline_inference.requests.events import LOGGER, Event, EventSink, log
from dflow_offline_inference.requests.lifecycle import (
    DONE,
    ENDS,
    ERROR,
    READY,
    RUNNING,
    TABLE,
    WAITING,
    Lifecycle,
    State,
)
from dflow_offline_inference.requests.request import GroupKey, Request, Result

__all__ = [
    "DONE",
    "ENDS",
    "ERROR",
    "LOGGER",
    "READY",
    "RUNNING",
    "TABLE",
    "WAITING",
    "DeadlineError",
    "DependencyError",
    "Event",
    "EventSink",
    "GroupKey",
    "Lifecycle",
    "NotStartedError",
    "Request",
    "RequestCancelledError",
    "RequestError",
    "RequestFailedError",
    "Result",
    "State",
    "TransitionError",
    "WorkerLostError",
    "log",
]
