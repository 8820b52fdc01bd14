"""What ends a request: errors of the core's tree that also carry the request."""

from __future__ import annotations

from dflow_core.errors import ClosedError, InstanceLostError, RunError, UsageError, WaitTimeoutError


class RequestError(RunError):
    """A request ended without a result.

    Args:
        message: What went wrong.
        request_id: The request.
        model: Name of the model it was for.
        instance: Number of the worker it ran on, if it did.
        hint: What to do.
    """

    def __init__(
        self, message: str, *, request_id: int, model: str, instance: int | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, node=model, instance=instance, trans_id=request_id, hint=hint)
        self.request_id = request_id

    def __str__(self) -> str:
        where = f"#{self.instance}" if self.instance is not None else ""
        text = f"request {self.request_id}, model {self.node!r}{where}: {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class RequestFailedError(RequestError):
    """The model failed on this request; `__cause__` is what it raised."""


class RequestCancelledError(RequestError):
    """The request was cancelled, by its handle or because everything was closed."""


class DependencyError(RequestError):
    """A request that this one depends on did not end well; `other_id` names it."""

    other_id: int = 0


class DeadlineError(RequestError, WaitTimeoutError):
    """The request had not ended when its deadline came."""


class WorkerLostError(RequestError, InstanceLostError):
    """The worker the request ran on went away, or the model has none left."""

    output: str = ""


class TransitionError(UsageError):
    """A request was to go from one state to another that cannot follow; a fault of the program, not of the caller.

    Args:
        request_id: The request.
        state, to: Where it is, and where it was to go.
        story: Its history.
    """

    def __init__(self, request_id: int, state: str, to: str, story: str) -> None:
        super().__init__(
            f"request {request_id} cannot go from {state} to {to}; its history: {story}", trans_id=request_id
        )
        self.request_id = request_id


class NotStartedError(ClosedError):
    """Used before `init`."""
