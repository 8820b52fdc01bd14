"""How the messages of one input are put together before the node sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from dflow_core.errors import OptionError
from dflow_core.options import seconds


@dataclass(frozen=True, slots=True, init=False)
class TimeBatch:
    """Put messages together until their times span a window.

    Args:
        time_window: What the times of the messages in one batch span, in the unit of the `start_time` and `end_time`
            the caller feeds (a timedelta counts in seconds); -1 waits for a message flagged EOS or SEG.
        batch_dim: -1 stacks along a new first dimension; k >= 0 joins along dimension k.
        drop_remainder: Whether what is left at EOS or SEG, shorter than the window, is dropped.

    Raises:
        OptionError: a value it cannot have.
    """

    time_window: float
    batch_dim: int
    drop_remainder: bool

    def __init__(self, time_window: float | timedelta, batch_dim: int = -1, drop_remainder: bool = False) -> None:
        until_flag = not isinstance(time_window, timedelta) and time_window == -1
        window = -1.0 if until_flag else seconds(time_window, "TimeBatch time_window")
        if window == 0:
            raise OptionError(
                "TimeBatch time_window: expected more than 0 seconds, got 0", hint="use -1 to wait for EOS or SEG"
            )
        _require_int(batch_dim, "TimeBatch batch_dim", -1, None)
        _require_bool(drop_remainder, "TimeBatch drop_remainder")
        object.__setattr__(self, "time_window", window)
        object.__setattr__(self, "batch_dim", int(batch_dim))
        object.__setattr__(self, "drop_remainder", drop_remainder)

    def __str__(self) -> str:
        dim = f", batch_dim={self.batch_dim}" if self.batch_dim >= 0 else ""
        return f"TimeBatch({self.time_window:g}{dim}{', drop_remainder=True' if self.drop_remainder else ''})"


@dataclass(frozen=True, slots=True, init=False)
class CountBatch:
    """Put a fixed number of messages together, stacked along a new first dimension.

    Args:
        batch_size: Messages in a batch, at least 1.
        slide_stride: How far the window moves after a batch; 0 is `batch_size`, so that no message is used twice.
        timeout: Seconds (or a timedelta) after the first message when an incomplete batch is sent; 0 waits for all.
        padding: Whether an incomplete batch is filled up with zeros to `batch_size`.

    Raises:
        OptionError: a value it cannot have.
    """

    batch_size: int
    slide_stride: int
    timeout: float
    padding: bool

    def __init__(
        self, batch_size: int, slide_stride: int = 0, timeout: float | timedelta = 0.0, padding: bool = False
    ) -> None:
        _require_int(batch_size, "CountBatch batch_size", 1, None)
        _require_int(slide_stride, "CountBatch slide_stride", 0, batch_size)
        _require_bool(padding, "CountBatch padding")
        object.__setattr__(self, "batch_size", int(batch_size))
        object.__setattr__(self, "slide_stride", int(slide_stride))
        object.__setattr__(self, "timeout", seconds(timeout, "CountBatch timeout"))
        object.__setattr__(self, "padding", padding)

    def __str__(self) -> str:
        stride = f", slide_stride={self.slide_stride}" if self.slide_stride else ""
        timeout = f", timeout={self.timeout:g}" if self.timeout else ""
        return f"CountBatch({self.batch_size}{stride}{timeout}{', padding=True' if self.padding else ''})"


Batch: TypeAlias = TimeBatch | CountBatch


def _require_int(value: object, what: str, low: int, high: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"{what}: expected a whole number, got {value!r}")
    if value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"{low} to {high}"
        raise OptionError(f"{what}: expected {span}, got {value}")


def _require_bool(value: object, what: str) -> None:
    if not isinstance(value, bool):
        raise OptionError(f"{what}: expected True or False, got {value!r}")
