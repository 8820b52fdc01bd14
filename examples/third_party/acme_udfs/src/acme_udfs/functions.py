"""The functions themselves; they run in an executor, or under a FuncHarness in tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from dflow_core.errors import OptionError, TensorError
from dflow_core.message import Flag, FlowMsg, describe
from dflow_core.spi import FlowFunc, FuncParams, RunContext

Numbers: TypeAlias = "npt.NDArray[np.float64]"
"""Of any kind of number, really; numpy's types cannot say that."""


class MovingAverage(FlowFunc):
    """Mean of the last messages, element by element. A message flagged EOS is the last of its series.

    Init parameters:
        window: How many messages, at least 1.
    """

    def init(self, params: FuncParams) -> None:
        """Check the parameters."""
        window = params.attrs.get("window")
        if not isinstance(window, int) or window < 1:
            raise OptionError(f"moving average: window must be a whole number from 1, got {window!r}", node=params.name)
        self._last: deque[Numbers] = deque(maxlen=window)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Take one message and send one."""
        (msg,) = inputs
        if not msg.is_null:
            array = _tensor(msg)
            if self._last and self._last[0].shape != array.shape:
                raise TensorError(f"got shape {list(array.shape)} in a series of {list(self._last[0].shape)}")
            # The input may be kept: as long as the array lives, so does its memory.
            self._last.append(array)
            mean = context.alloc(array.shape, np.dtype(np.float64))
            np.mean(np.stack(self._last), axis=0, out=mean)
            context.send(0, mean)
        else:
            context.send(0, None)
        if msg.info.flags & Flag.EOS:
            self._last.clear()


class Threshold(FlowFunc):
    """Sends a message on to output 0 if its largest element is above a limit, else to output 1.

    The other output is told by the framework that this branch was not taken.

    Init parameters:
        limit: The limit; 0.5 by default.
    """

    def init(self, params: FuncParams) -> None:
        """Check the parameters."""
        limit = params.attrs.get("limit", 0.5)
        if isinstance(limit, bool) or not isinstance(limit, (int, float)):
            raise OptionError(f"threshold: limit must be a number, got {limit!r}", node=params.name)
        self._limit = float(limit)

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Take one message and pass it on."""
        (msg,) = inputs
        is_above = not msg.is_null and bool(np.max(_tensor(msg)) > self._limit)
        context.send(0 if is_above else 1, msg)


def _tensor(msg: FlowMsg) -> Numbers:
    array = msg.get_tensor()
    if array is None or array.size == 0 or array.dtype.kind not in "biuf":
        raise TensorError(f"expected a tensor of numbers, got {describe(msg)}")
    return cast(Numbers, array)
