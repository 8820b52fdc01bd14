"""The exceptions of the package, and how errors of the core become codes."""

from __future__ import annotations

from dataflow import codes
from dflow_core.errors import (
    AlignmentError,
    ClosedError,
    DflowError,
    NodeError,
    PoolExhaustedError,
    QueueFullError,
    RaisedError,
    UsageError,
    WaitTimeoutError,
)

__all__ = ["DfAbortException", "DfException", "code_of"]


class DfException(Exception):
    """Something went wrong.

    Args:
        obj: What.
        error_code: Its number; 145000 if not given.
    """

    def __init__(self, obj: object, error_code: int | None = None) -> None:
        super().__init__()
        self.message = obj
        self.error_code = codes.PARAM_INVALID if error_code is None else error_code

    def __str__(self) -> str:
        return f"DfException:{self.error_code}:{self.message}"

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[DfException], tuple[object, int]]:
        return type(self), (self.message, self.error_code)


class DfAbortException(DfException):
    """Waiting for data inside a function was broken off: by a redeployment (564003) or the end (564004)."""


def code_of(error: DflowError, empty: int = codes.MODEL_EXECUTE_TIMEOUT) -> int:
    """The code a caller of feed or fetch gets for an error of the core.

    Args:
        error: The error.
        empty: The code for a wait that ended without anything.
    """
    if isinstance(error, NodeError):
        return codes.visible(error.ret_code or codes.FUNC_FAILED)
    if isinstance(error, RaisedError):
        return codes.USER_RAISE_EXCEPTION
    if isinstance(error, AlignmentError):
        return codes.DATA_NOT_ALIGNED
    if isinstance(error, QueueFullError):
        return codes.QUEUE_FULL
    if isinstance(error, PoolExhaustedError):
        return codes.FAILED if error.never_fits else codes.QUEUE_FULL
    if isinstance(error, WaitTimeoutError):
        return empty
    if isinstance(error, UsageError) and not isinstance(error, ClosedError):
        return codes.PARAM_INVALID
    return codes.FAILED
