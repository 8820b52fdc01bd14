"""`_BuiltIn_TimeBatch`: messages whose times span a window."""

from __future__ import annotations

from collections.abc import Sequence

from dflow_builtin_udf.batch_func import BatchFunc
from dflow_builtin_udf.items import Item
from dflow_builtin_udf.parameters import Parameters
from dflow_builtin_udf.time_window import TimeWindow
from dflow_core.message import FlowMsg
from dflow_core.spi import FuncParams, RunContext


class TimeBatch(BatchFunc):
    """Puts messages together until the times in their heads span a window.

    Init parameters:
        window: Span of a batch, in whatever unit the messages' start and end times have; -1 waits for EOS or SEG.
        batch_dim: -1 stacks along a new first dimension; k >= 0 joins along dimension k.
        drop_remainder: Whether a batch cut short is dropped.
        timeout: Seconds of real time after its first message when a batch is cut short; 0 for never.
        max_items, max_bytes: Most that is held while waiting.
    """

    _window: TimeWindow

    def init(self, params: FuncParams) -> None:
        """Check the parameters."""
        super().init(params)
        known = ("window", "batch_dim", "drop_remainder", "timeout", "max_items", "max_bytes")
        given = Parameters("TimeBatch", params.name, params.attrs, known)
        self.dim = given.whole("batch_dim", -1, -1)
        self._window = TimeWindow(
            given.window("window"),
            self.dim,
            given.flag("drop_remainder", False),
            given.seconds("timeout"),
            given.whole("max_items", 8192, 1),
            given.whole("max_bytes", 1 << 30, 1),
        )

    def proc(self, context: RunContext, inputs: Sequence[FlowMsg]) -> None:
        """Take what arrived."""
        item = Item.of(inputs)
        self.run(context, self._window.offer(item, context.now()), item)

    def deadline(self) -> float | None:
        """When the batch being collected is cut short."""
        return self._window.deadline

    def on_timer(self, context: RunContext) -> None:
        """Cut it short."""
        self.run(context, self._window.expire(context.now()))

    def on_stop(self, context: RunContext) -> None:
        """Send or drop what is left."""
        self.run(context, self._window.cut())
