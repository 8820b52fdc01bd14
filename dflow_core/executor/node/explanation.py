"""What is said of an error that user code or a model raised."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import TracebackType

from dflow_core.errors import DflowError, RunError, TensorError, shortened, text_of
from dflow_core.message import ErrorInfo, FlowMsg, describe

_MOST_SHAPES = 16
_MOST_TRACE = 131072


def explain(error: BaseException, inputs: Sequence[FlowMsg], node: str, instance: int) -> ErrorInfo:
    """What to send about an error that a function raised.

    Args:
        error: The error.
        inputs: What the function was called with.
        node, instance: Where.
    """
    message = text_of(error)
    if isinstance(error, RunError) and error.node:  # of a node in a graph that the function called
        message = str(error).partition("\n")[0]
    shapes = tuple(_described(msg) for msg in inputs[:_MOST_SHAPES])
    hint = str(getattr(error, "hint", None) or "") if isinstance(error, DflowError) else ""
    if isinstance(error, ValueError) and "read-only" in message:
        hint = hint or "inputs are shared with other readers and cannot be changed: work on x.copy()"
    trace = traceback_of(error, _user_frames(error))
    return ErrorInfo("node", message, type(error).__name__, node, instance, trace, shapes, hint)


def traceback_of(error: BaseException, frames: TracebackType | None) -> str:
    """The traceback as text; without its causes where these, or the exception itself, cannot be looked at.

    Args:
        error: The exception, of any origin.
        frames: Where to begin.
    """
    try:
        lines = traceback.format_exception(type(error), error, frames)
    except Exception:  # a __bool__, __getattr__ or __notes__ of the user's class raised
        head = "Traceback (most recent call last):\n"
        lines = [head, *traceback.format_tb(frames), f"{type(error).__name__}: {text_of(error)}\n"]
    return shortened("".join(lines), _MOST_TRACE)


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
