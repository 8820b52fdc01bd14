"""Attributes of a mapped input: how its messages are put together."""

from __future__ import annotations

from dataflow.utils.arguments import assert_args_type
from dflow_core import graph as core
from dflow_core.errors import OptionError

__all__ = ["CountBatch", "TimeBatch"]

_LONGEST_MS = 2**32 - 2


class TimeBatch:
    """Messages are put together until their times span a window.

    Args:
        time_window: What the times span, in the unit of the times that are fed (milliseconds by custom); -1 waits for
            a message flagged EOS or SEG.
        batch_dim: -1 stacks along a new first dimension; k >= 0 joins along dimension k.
        drop_remainder: Whether what is left, shorter than the window, is dropped.

    Raises:
        DfException: an argument of another type.
    """

    @assert_args_type(object, int, int, bool)
    def __init__(self, time_window: int = 0, batch_dim: int = -1, drop_remainder: bool = False) -> None:
        self.time_window = time_window
        self.batch_dim = batch_dim
        self.drop_remainder = drop_remainder

    def to_core(self) -> core.TimeBatch:
        """The same for the core.

        Raises:
            OptionError: a value it cannot have.
        """
        return core.TimeBatch(self.time_window, self.batch_dim, self.drop_remainder)


class CountBatch:
    """A fixed number of messages is stacked along a new first dimension.

    Args:
        batch_size: Messages in a batch.
        slide_stride: How far the window moves after a batch; 0 is `batch_size`.
        timeout: Milliseconds after the first message when an incomplete batch is sent; 0 waits for all.
        padding: Whether an incomplete batch is filled up with zeros.

    Raises:
        DfException: an argument of another type.
    """

    @assert_args_type(object, int, int, int, bool)
    def __init__(
        self, batch_size: int = 0, slide_stride: int = 0, timeout: int = 0, padding: bool = False
    ) -> None:
        self.batch_size = batch_size
        self.slide_stride = slide_stride
        self.timeout = timeout
        self.padding = padding

    def to_core(self) -> core.CountBatch:
        """The same for the core, whose time-outs are seconds.

        Raises:
            OptionError: a value it cannot have.
        """
        if self.timeout > _LONGEST_MS:
            raise OptionError(f"CountBatch timeout: expected at most {_LONGEST_MS} milliseconds, got {self.timeout}")
        return core.CountBatch(self.batch_size, self.slide_stride, self.timeout / 1000, self.padding)
