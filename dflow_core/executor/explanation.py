"""What is said of an error that user code or a model raised."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import TracebackType

from dflow_core.errors import DflowError, RunError, TensorError
from dflow_core.message import ErrorInfo, FlowMsg, describe

_MOST_SHAPES = 16


def explain(error: BaseException, inputs: Sequence[FlowMsg], node: str, instance: int) -> ErrorInfo:
    """What to send about an error that a function raised.

    Args:
        error: The error.
        inputs: What the function was called with.
        node, instance: Where.
    """
    message = error.message if isinstance(error, DflowError) else str(error)
    if isinstance(error, RunError) and error.node:  # of a node in a graph that the function called
        message = str(error).partition("\n")[0]
    if isinstance(error, SystemExit):
        message = f"user code called sys.exit({error.code!r})"
    shapes = tuple(_described(msg) for msg in inputs[:_MOST_SHAPES])
    hint = (error.hint if isinstance(error, DflowError) else None) or ""
    if isinstance(error, ValueError) and "read-only" in message:
        hint = hint or "inputs are shared with other readers and cannot be changed: work on x.copy()"
    trace = "".join(traceback.format_exception(type(error), error, _user_frames(error)))
    return ErrorInfo("node", message, type(error).__name__, node, instance, trace, shapes, hint)


def _described(msg: FlowMsg) -> str:
    try:
        return describe(msg)
    except TensorError as error:
        return f"unreadable ({error.message})"


def _user_frames(error: BaseException) -> TracebackType | None:
    """The traceback without the frames of this package on top of it."""
    frames = error.__traceback__
    while frames is not None and "/dflow_core/" in frames.tb_frame.f_code.co_filename.replace("\\", "/"):
        frames = frames.tb_next
    return frames if frames is not None else error.__traceback__
